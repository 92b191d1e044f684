package policy

import (
	"strings"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// jwtFilter is the filter that leaves a token's claims as metadata, under payloadKey.
const (
	jwtFilter  = "envoy.filters.http.jwt_authn"
	payloadKey = "payload"
)

// metadata matches what a filter left behind. A stock Envoy is given the form that is not deprecated.
func metadata(stock bool, filterName string, path []string, value *matcherv3.ValueMatcher) *rbacv3.Principal {
	m := &matcherv3.MetadataMatcher{Filter: filterName, Value: value}
	for _, p := range path {
		m.Path = append(m.Path, &matcherv3.MetadataMatcher_PathSegment{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: p},
		})
	}
	if stock {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_SourcedMetadata{SourcedMetadata: &rbacv3.SourcedMetadata{
			MetadataMatcher: m, MetadataSource: rbacv3.MetadataSource_DYNAMIC,
		}}}
	}
	//nolint:staticcheck // the form that proxies of this profile have always been sent
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Metadata{Metadata: m}}
}

func textValue(m *matcherv3.StringMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: m}}
}

func orValue(list []*matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	if len(list) == 1 {
		return list[0]
	}
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{
		OrMatch: &matcherv3.OrMatcher{ValueMatchers: list},
	}}
}

func element(v *matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{ListMatch: &matcherv3.ListMatcher{
		MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: v},
	}}}
}

// claimMatcher matches a claim that is one of the values, or a list that holds one.
func claimMatcher(stock bool, claim ...string) matcher {
	path := append([]string{payloadKey}, claim...)
	return matcher{http: true, merged: func(values []string) *rbacv3.Principal {
		list := make([]*matcherv3.ValueMatcher, len(values))
		for i, v := range values {
			list[i] = textValue(text(v))
		}
		one := orValue(list)
		return metadata(stock, jwtFilter, path, orValue([]*matcherv3.ValueMatcher{element(one), one}))
	}}
}

// requestPrincipalMatcher matches "issuer/subject" of a token.
func requestPrincipalMatcher(stock bool) matcher {
	return matcher{http: true, bare: true, principal: func(v string) *rbacv3.Principal {
		iss, sub := splitPrincipal(v)
		return andPrincipals([]*rbacv3.Principal{
			metadata(stock, jwtFilter, []string{payloadKey, "iss"}, textValue(iss)),
			metadata(stock, jwtFilter, []string{payloadKey, "sub"}, textValue(sub)),
		})
	}}
}

// splitPrincipal returns the matchers of both halves. A wildcard belongs to the half at whose outer end it stands.
func splitPrincipal(v string) (iss, sub *matcherv3.StringMatcher) {
	exact := func(s string) *matcherv3.StringMatcher {
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: s}}
	}
	if v == "*" {
		return expression(".+"), expression(".+")
	}
	i := strings.LastIndex(v, "/")
	if i < 0 {
		switch {
		case strings.HasPrefix(v, "*"):
			return expression(".+"), text(v)
		case strings.HasSuffix(v, "*"):
			return text(v), expression(".+")
		}
		return exact(v), exact("")
	}
	issuer, subject := v[:i], v[i+1:]
	switch {
	case strings.HasPrefix(v, "*"):
		return text(issuer), exact(subject)
	case strings.HasSuffix(v, "*"):
		return exact(issuer), text(subject)
	}
	return exact(issuer), exact(subject)
}

// filterMetadataMatcher matches a key of any filter's metadata; "[v]" asks for a list element.
func filterMetadataMatcher(stock bool, filterName, key string) matcher {
	return matcher{http: strings.HasPrefix(filterName, "envoy.filters.http."), principal: func(v string) *rbacv3.Principal {
		if inner, ok := strings.CutPrefix(v, "["); ok && strings.HasSuffix(inner, "]") {
			return metadata(stock, filterName, []string{key}, element(textValue(text(strings.TrimSuffix(inner, "]")))))
		}
		return metadata(stock, filterName, []string{key}, textValue(text(v)))
	}}
}
