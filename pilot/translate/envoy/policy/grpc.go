package policy

import (
	"regexp"
	"strings"

	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
)

// GRPC returns the filters of a gRPC server without a proxy, which knows DENY and ALLOW only (translation-l4 §7.1). It
// would refuse the whole listener for a matcher that it does not know, so there are none of those. It has no tokens:
// what asks for one never matches.
func (s *Set) GRPC() []*hcmv3.HttpFilter {
	plain := *s
	plain.grpc, plain.stock = true, false
	var out []*hcmv3.HttpFilter
	for _, set := range plain.actions(false) {
		name := nameHTTP
		switch {
		case set.rules == nil: // all of it for trying out, which it cannot
			continue
		case set.rules.GetAction() == rbacv3.RBAC_LOG:
			continue
		case set.rules.GetAction() == rbacv3.RBAC_DENY:
			name += ".DENY"
		}
		out = append(out, s.filters.HTTPFilter(name, &httprbacv3.RBAC{Rules: set.rules}))
	}
	return out
}

// readable tells whether a gRPC server lets a policy look at a header.
func readable(name string) bool {
	name = strings.ToLower(name)
	return name != ":scheme" && !strings.HasPrefix(name, "grpc-")
}

// unreadable stands for a condition that cannot be said: an ALLOW rule goes with it, others match more without it.
func unreadable() matcher {
	return matcher{http: true, principal: func(string) *rbacv3.Principal { return nil }}
}

// pathTemplate matches a path with "{*}" for one segment and "{**}" for any number of them.
func pathTemplate(v string) *matcherv3.StringMatcher {
	return expression(strings.NewReplacer(`\{\*\*\}`, ".*", `\{\*\}`, "[^/]+").Replace(regexp.QuoteMeta(v)))
}
