package policy

import (
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// PeerPrincipalState is the filter state in which the end of an HBONE tunnel leaves the peer's identity.
const PeerPrincipalState = "io.istio.peer_principal"

// WithinTunnel returns the same policies for connections that come out of a tunnel.
func (s *Set) WithinTunnel() *Set {
	out := *s
	out.tunnel = true
	return &out
}

// byTunnel makes the rules ask for the identity at the tunnel's end, in place of the connection's own.
func byTunnel(r *rbacv3.RBAC) {
	for _, p := range r.GetPolicies() {
		principalsByTunnel(p.GetPrincipals())
	}
}

func principalsByTunnel(list []*rbacv3.Principal) {
	for _, p := range list {
		switch x := p.GetIdentifier().(type) {
		case *rbacv3.Principal_AndIds:
			principalsByTunnel(x.AndIds.GetIds())
		case *rbacv3.Principal_OrIds:
			principalsByTunnel(x.OrIds.GetIds())
		case *rbacv3.Principal_NotId:
			principalsByTunnel([]*rbacv3.Principal{x.NotId})
		case *rbacv3.Principal_Authenticated_:
			p.Identifier = &rbacv3.Principal_FilterState{FilterState: &matcherv3.FilterStateMatcher{
				Key:     PeerPrincipalState,
				Matcher: &matcherv3.FilterStateMatcher_StringMatch{StringMatch: x.Authenticated.GetPrincipalName()},
			}}
		}
	}
}
