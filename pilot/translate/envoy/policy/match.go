package policy

import (
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// matcher makes a permission or a principal of a value; each nil for values that make no sense.
type matcher struct {
	http       bool // needs an HTTP request
	permission func(value string) *rbacv3.Permission
	principal  func(value string) *rbacv3.Principal
	// merged, if set, takes all values at once.
	merged func(values []string) *rbacv3.Principal
	// bare says that a single value is not wrapped.
	bare bool
}

func (m matcher) permissions(values []string) (*rbacv3.Permission, bool) {
	out := make([]*rbacv3.Permission, 0, len(values))
	for _, v := range values {
		p := m.permission(v)
		if p == nil {
			return nil, false
		}
		out = append(out, p)
	}
	return orPermissions(out), true
}

func (m matcher) principals(values []string) (*rbacv3.Principal, bool) {
	if m.merged != nil {
		p := m.merged(values)
		return p, p != nil
	}
	out := make([]*rbacv3.Principal, 0, len(values))
	for _, v := range values {
		p := m.principal(v)
		if p == nil {
			return nil, false
		}
		out = append(out, p)
	}
	if m.bare && len(out) == 1 {
		return out[0], true
	}
	return orPrincipals(out), true
}

// text matches a value with a wildcard at one end: "*", "*suffix", "prefix*", or all of it.
func text(v string) *matcherv3.StringMatcher {
	switch {
	case v == "*":
		return expression(".+")
	case strings.HasPrefix(v, "*"):
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Suffix{Suffix: v[1:]}}
	case strings.HasSuffix(v, "*"):
		return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: v[:len(v)-1]}}
	}
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: v}}
}

func expression(regex string) *matcherv3.StringMatcher {
	return &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
		SafeRegex: &matcherv3.RegexMatcher{Regex: regex},
	}}
}

// header matches a header's value; "*" only asks that it is there.
func header(name, value string, ignoreCase bool) *routev3.HeaderMatcher {
	if value == "*" {
		return &routev3.HeaderMatcher{
			Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
		}
	}
	m := text(value)
	m.IgnoreCase = ignoreCase
	return &routev3.HeaderMatcher{
		Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: m},
	}
}

func headerPermission(name string, ignoreCase bool) matcher {
	return matcher{http: true, permission: func(v string) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: header(name, v, ignoreCase)}}
	}}
}

func hostMatcher() matcher   { return headerPermission(":authority", true) }
func methodMatcher() matcher { return headerPermission(":method", false) }

func headerMatcher(name string) matcher {
	return matcher{http: true, principal: func(v string) *rbacv3.Principal {
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_Header{Header: header(name, v, false)}}
	}}
}

func pathMatcher(s *Set) matcher {
	return matcher{http: true, permission: func(v string) *rbacv3.Permission {
		if s.grpc && strings.Contains(v, "{*") {
			return &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
				Rule: &matcherv3.PathMatcher_Path{Path: pathTemplate(v)},
			}}}
		}
		if strings.Contains(v, "{*}") || strings.Contains(v, "{**}") {
			template := strings.NewReplacer("{**}", "**", "{*}", "*").Replace(v)
			return &rbacv3.Permission{Rule: &rbacv3.Permission_UriTemplate{UriTemplate: &corev3.TypedExtensionConfig{
				Name:        "uri-template",
				TypedConfig: s.filters.Pack(&templatev3.UriTemplateMatchConfig{PathTemplate: template}),
			}}}
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
			Rule: &matcherv3.PathMatcher_Path{Path: text(v)},
		}}}
	}}
}

func portMatcher() matcher {
	return matcher{permission: func(v string) *rbacv3.Permission {
		n, err := strconv.ParseUint(v, 10, 16)
		if err != nil {
			return nil
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationPort{DestinationPort: uint32(n)}}
	}}
}

// cidr reads an address range; a bare address is a range of one.
func cidr(v string) *corev3.CidrRange {
	p, err := netip.ParsePrefix(v)
	if err != nil {
		a, err := netip.ParseAddr(v)
		if err != nil {
			return nil
		}
		p = netip.PrefixFrom(a, a.BitLen())
	}
	return &corev3.CidrRange{AddressPrefix: p.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(p.Bits()))}
}

func destinationIPMatcher() matcher {
	return matcher{permission: func(v string) *rbacv3.Permission {
		r := cidr(v)
		if r == nil {
			return nil
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationIp{DestinationIp: r}}
	}}
}

func directIPMatcher() matcher {
	return matcher{principal: func(v string) *rbacv3.Principal {
		r := cidr(v)
		if r == nil {
			return nil
		}
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_DirectRemoteIp{DirectRemoteIp: r}}
	}}
}

func remoteIPMatcher() matcher {
	return matcher{principal: func(v string) *rbacv3.Principal {
		r := cidr(v)
		if r == nil {
			return nil
		}
		return &rbacv3.Principal{Identifier: &rbacv3.Principal_RemoteIp{RemoteIp: r}}
	}}
}

func sniMatcher() matcher {
	return matcher{permission: func(v string) *rbacv3.Permission {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_RequestedServerName{RequestedServerName: text(v)}}
	}}
}

func authenticated(name *matcherv3.StringMatcher) *rbacv3.Principal {
	return &rbacv3.Principal{Identifier: &rbacv3.Principal_Authenticated_{
		Authenticated: &rbacv3.Principal_Authenticated{PrincipalName: name},
	}}
}

const spiffePrefix = "spiffe://"

// principalMatcher matches the peer's identity, written without its scheme, in all names of its trust domain.
func principalMatcher(domains trust) matcher {
	return matcher{merged: func(values []string) *rbacv3.Principal {
		var out []*rbacv3.Principal
		for _, v := range domains.expand(values) {
			switch {
			case v == "*":
				out = append(out, authenticated(expression(".+")))
			case strings.HasPrefix(v, "*"):
				out = append(out, authenticated(expression(spiffePrefix+".*"+regexp.QuoteMeta(v[1:]))))
			default:
				out = append(out, authenticated(text(spiffePrefix+v)))
			}
		}
		return orPrincipals(out)
	}}
}

func namespaceMatcher() matcher {
	return matcher{principal: func(v string) *rbacv3.Principal {
		parts := strings.Split(v, "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		return authenticated(expression(".*/ns/" + strings.Join(parts, ".*") + "/.*"))
	}}
}

// accountMatcher matches a service account, of the policy's own namespace unless it names another.
func accountMatcher(namespace string) matcher {
	return matcher{principal: func(v string) *rbacv3.Principal {
		ns, account, ok := strings.Cut(v, "/")
		if !ok {
			ns, account = namespace, v
		}
		return authenticated(expression(spiffePrefix + ".+/ns/" + regexp.QuoteMeta(ns) + "/(.+/|)sa/" +
			regexp.QuoteMeta(account) + "(/.+)?"))
	}}
}

func trustDomainMatcher(domains trust) matcher {
	return matcher{merged: func(values []string) *rbacv3.Principal {
		var out []*rbacv3.Principal
		for _, v := range domains.expandDomains(values) {
			m := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: spiffePrefix + v + "/"}}
			switch {
			case v == "*":
				m = &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: spiffePrefix}}
			case strings.Contains(v, "*"):
				m = expression(spiffePrefix + strings.ReplaceAll(regexp.QuoteMeta(v), `\*`, "[^/]*") + "/.*")
			}
			out = append(out, authenticated(m))
		}
		return orPrincipals(out)
	}}
}
