package route

import (
	"maps"
	"slices"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"
)

const claimsPrefix = "@request.auth.claims"

// routeMatch translates a match; nil matches everything. Whole segments are what Gateway API prefixes mean.
func routeMatch(m *networking.HTTPMatchRequest, segments bool) *routev3.RouteMatch {
	out := matchAll()
	if m == nil {
		return out
	}
	out.CaseSensitive = wrapperspb.Bool(!m.GetIgnoreUriCase())
	setPath(out, m.GetUri(), segments)
	for _, name := range slices.Sorted(maps.Keys(m.GetHeaders())) {
		addHeader(out, name, m.GetHeaders()[name], false)
	}
	for _, name := range slices.Sorted(maps.Keys(m.GetWithoutHeaders())) {
		addHeader(out, name, m.GetWithoutHeaders()[name], true)
	}
	slices.SortStableFunc(out.Headers, func(a, b *routev3.HeaderMatcher) int { return strings.Compare(a.Name, b.Name) })
	for _, p := range []struct {
		name  string
		match *networking.StringMatch
	}{{":method", m.GetMethod()}, {":authority", m.GetAuthority()}, {":scheme", m.GetScheme()}} {
		if p.match != nil {
			out.Headers = append(out.Headers, headerMatcher(p.name, p.match, false))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.GetQueryParams())) {
		out.QueryParameters = append(out.QueryParameters, queryMatcher(name, m.GetQueryParams()[name]))
	}
	return out
}

func setPath(out *routev3.RouteMatch, uri *networking.StringMatch, segments bool) {
	switch m := uri.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		out.PathSpecifier = &routev3.RouteMatch_Path{Path: m.Exact}
	case *networking.StringMatch_Prefix:
		if segments && m.Prefix != "/" {
			out.PathSpecifier = &routev3.RouteMatch_PathSeparatedPrefix{PathSeparatedPrefix: strings.TrimSuffix(m.Prefix, "/")}
			return
		}
		out.PathSpecifier = &routev3.RouteMatch_Prefix{Prefix: m.Prefix}
	case *networking.StringMatch_Regex:
		out.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: regex(m.Regex)}
	}
}

func addHeader(out *routev3.RouteMatch, name string, m *networking.StringMatch, invert bool) {
	if path, ok := claimPath(name); ok {
		out.DynamicMetadata = append(out.DynamicMetadata, claimMatcher(path, m, invert))
		return
	}
	out.Headers = append(out.Headers, headerMatcher(name, m, invert))
}

// anything tells whether a match asks for no more than presence.
func anything(m *networking.StringMatch) bool {
	return m.GetMatchType() == nil || m.GetRegex() == "*"
}

func headerMatcher(name string, m *networking.StringMatch, invert bool) *routev3.HeaderMatcher {
	out := &routev3.HeaderMatcher{Name: name, InvertMatch: invert}
	if anything(m) {
		out.HeaderMatchSpecifier = &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}
		return out
	}
	// An absent header has no value, so that it is without the value too.
	out.TreatMissingHeaderAsEmpty = invert
	out.HeaderMatchSpecifier = &routev3.HeaderMatcher_StringMatch{StringMatch: stringMatcher(m)}
	return out
}

func queryMatcher(name string, m *networking.StringMatch) *routev3.QueryParameterMatcher {
	out := &routev3.QueryParameterMatcher{Name: name}
	if anything(m) {
		out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_PresentMatch{PresentMatch: true}
		return out
	}
	out.QueryParameterMatchSpecifier = &routev3.QueryParameterMatcher_StringMatch{StringMatch: stringMatcher(m)}
	return out
}

func stringMatcher(m *networking.StringMatch) *matcherv3.StringMatcher {
	switch m := m.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: m.Exact}}
	case *networking.StringMatch_Prefix:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: m.Prefix}}
	case *networking.StringMatch_Regex:
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(m.Regex)}}
	}
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(".*")}}
}

// claimPath returns the path to a JWT claim that a header name stands for: "@request.auth.claims.a.b" or
// "@request.auth.claims[a][b]".
func claimPath(name string) ([]string, bool) {
	if len(name) <= len(claimsPrefix) || !strings.EqualFold(name[:len(claimsPrefix)], claimsPrefix) {
		return nil, false
	}
	rest := name[len(claimsPrefix):]
	switch {
	case rest[0] == '.':
		return strings.Split(rest[1:], "."), true
	case rest[0] == '[' && strings.HasSuffix(rest, "]"):
		return strings.Split(rest[1:len(rest)-1], "]["), true
	}
	return nil, false
}

// claimMatcher tests a claim, which may be a list or a string, in what the JWT filter leaves behind.
func claimMatcher(path []string, m *networking.StringMatch, invert bool) *matcherv3.MetadataMatcher {
	out := &matcherv3.MetadataMatcher{Filter: "envoy.filters.http.jwt_authn", Invert: invert}
	for _, key := range append([]string{"payload"}, path...) {
		out.Path = append(out.Path, &matcherv3.MetadataMatcher_PathSegment{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key},
		})
	}
	text := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{SafeRegex: regex(".+")}}
	if !anything(m) {
		text = stringMatcher(m)
	}
	value := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: text}}
	list := &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{ListMatch: &matcherv3.ListMatcher{
		MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: value},
	}}}
	out.Value = &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{OrMatch: &matcherv3.OrMatcher{
		ValueMatchers: []*matcherv3.ValueMatcher{list, value},
	}}}
	return out
}

// matchesAll tells whether a translated match leaves nothing for later routes.
func matchesAll(m *routev3.RouteMatch) bool {
	if len(m.GetHeaders()) > 0 || len(m.GetQueryParameters()) > 0 || len(m.GetDynamicMetadata()) > 0 {
		return false
	}
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return p.Prefix == "/"
	case *routev3.RouteMatch_PathSeparatedPrefix:
		return p.PathSeparatedPrefix == "/"
	case *routev3.RouteMatch_SafeRegex:
		return p.SafeRegex.GetRegex() == ".*"
	}
	return false
}
