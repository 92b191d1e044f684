package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	networking "istio.io/api/networking/v1alpha3"
)

type consistentHash = networking.LoadBalancerSettings_ConsistentHashLB

// destinationHash returns the consistent hash that a rule asks for at a destination. The most particular policy wins:
// the subset's port, the subset, the port, the rule itself.
func destinationHash(rule *networking.DestinationRule, subset string, port uint32) *consistentHash {
	policy := rule.GetTrafficPolicy()
	var sub *networking.TrafficPolicy
	for _, s := range rule.GetSubsets() {
		if s.GetName() == subset && subset != "" {
			sub = s.GetTrafficPolicy()
			break
		}
	}
	for _, h := range []*consistentHash{
		portHash(sub, port), sub.GetLoadBalancer().GetConsistentHash(),
		portHash(policy, port), policy.GetLoadBalancer().GetConsistentHash(),
	} {
		if h != nil {
			return h
		}
	}
	return nil
}

func portHash(p *networking.TrafficPolicy, port uint32) *consistentHash {
	for _, s := range p.GetPortLevelSettings() {
		if s.GetPort().GetNumber() == port && port != 0 {
			return s.GetLoadBalancer().GetConsistentHash()
		}
	}
	return nil
}

// hashPolicy says what of a request is hashed; nil if nothing is.
func hashPolicy(h *consistentHash) *routev3.RouteAction_HashPolicy {
	switch k := h.GetHashKey().(type) {
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpHeaderName:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Header_{
			Header: &routev3.RouteAction_HashPolicy_Header{HeaderName: k.HttpHeaderName},
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpCookie:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_Cookie_{
			Cookie: hashCookie(k.HttpCookie),
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_UseSourceIp:
		if !k.UseSourceIp {
			return nil
		}
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_ConnectionProperties_{
			ConnectionProperties: &routev3.RouteAction_HashPolicy_ConnectionProperties{SourceIp: true},
		}}
	case *networking.LoadBalancerSettings_ConsistentHashLB_HttpQueryParameterName:
		return &routev3.RouteAction_HashPolicy{PolicySpecifier: &routev3.RouteAction_HashPolicy_QueryParameter_{
			QueryParameter: &routev3.RouteAction_HashPolicy_QueryParameter{Name: k.HttpQueryParameterName},
		}}
	}
	return nil
}

func hashCookie(c *networking.LoadBalancerSettings_ConsistentHashLB_HTTPCookie) *routev3.RouteAction_HashPolicy_Cookie {
	out := &routev3.RouteAction_HashPolicy_Cookie{Name: c.GetName(), Path: c.GetPath(), Ttl: duration(c.GetTtl())}
	for _, a := range c.GetAttributes() {
		out.Attributes = append(out.Attributes, &routev3.RouteAction_HashPolicy_CookieAttribute{
			Name: a.GetName(), Value: a.GetValue(),
		})
	}
	return out
}
