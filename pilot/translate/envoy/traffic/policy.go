package traffic

import (
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// Policy is the traffic policy in force for a service port, or for a subset of it. Nil fields are unset. What it points
// to is shared with the rule and must not be modified.
type Policy struct {
	Pool          *networking.ConnectionPoolSettings
	LoadBalancer  *networking.LoadBalancerSettings
	Outlier       *networking.OutlierDetection
	TLS           *networking.ClientTLSSettings
	Tunnel        *networking.TrafficPolicy_TunnelSettings
	ProxyProtocol *networking.TrafficPolicy_ProxyProtocol
	RetryBudget   *networking.TrafficPolicy_RetryBudget
	// inherited is set when Outlier is the mesh's default, which alone does not make endpoints prefer near ones.
	inherited bool
}

// For returns the policy of a service port: the rule's port-level settings as a whole, or its top level, then the
// mesh's defaults for whatever block is unset. The rule may be nil.
func For(rule *model.DestinationRule, port uint32, mesh *meshconfig.MeshConfig) Policy {
	p := ForPort(rule, port)
	if d := mesh.GetDefaultTrafficPolicy(); d != nil {
		if p.Pool == nil {
			p.Pool = d.GetConnectionPool()
		}
		if p.Outlier == nil {
			p.Outlier, p.inherited = d.GetOutlierDetection(), true
		}
	}
	return p
}

// ForPort returns the policy of a service port without the mesh's defaults.
func ForPort(rule *model.DestinationRule, port uint32) Policy {
	if rule == nil {
		return Policy{}
	}
	t := rule.Spec.GetTrafficPolicy()
	if s := portLevel(t, port); s != nil {
		return Policy{
			Pool: s.GetConnectionPool(), LoadBalancer: s.GetLoadBalancer(), Outlier: s.GetOutlierDetection(), TLS: s.GetTls(),
		}
	}
	return Policy{
		Pool: t.GetConnectionPool(), LoadBalancer: t.GetLoadBalancer(), Outlier: t.GetOutlierDetection(), TLS: t.GetTls(),
		Tunnel: t.GetTunnel(), ProxyProtocol: t.GetProxyProtocol(), RetryBudget: t.GetRetryBudget(),
	}
}

func portLevel(t *networking.TrafficPolicy, port uint32) *networking.TrafficPolicy_PortTrafficPolicy {
	for _, s := range t.GetPortLevelSettings() {
		if s.GetPort().GetNumber() == port {
			return s
		}
	}
	return nil
}

// Subset returns the policy of a subset whose own policy is t: each block that t sets replaces the port's. Port-level
// settings of t for the port replace four blocks even where they are unset.
func (p Policy) Subset(t *networking.TrafficPolicy, port uint32) Policy {
	if t == nil {
		return p
	}
	replace(&p.Pool, t.GetConnectionPool())
	replace(&p.LoadBalancer, t.GetLoadBalancer())
	p.inherited = p.inherited && t.GetOutlierDetection() == nil
	replace(&p.Outlier, t.GetOutlierDetection())
	replace(&p.TLS, t.GetTls())
	replace(&p.Tunnel, t.GetTunnel())
	replace(&p.ProxyProtocol, t.GetProxyProtocol())
	replace(&p.RetryBudget, t.GetRetryBudget())
	if s := portLevel(t, port); s != nil {
		p.Pool, p.LoadBalancer, p.Outlier, p.TLS = s.GetConnectionPool(), s.GetLoadBalancer(), s.GetOutlierDetection(), s.GetTls()
		p.inherited = false
	}
	return p
}

func replace[T any](field **T, by *T) {
	if by != nil {
		*field = by
	}
}

// ForSubset returns the policy of a service port for the named subset; an empty or unknown name means the port itself.
func ForSubset(rule *model.DestinationRule, port uint32, subset string, mesh *meshconfig.MeshConfig) Policy {
	p := For(rule, port, mesh)
	if subset == "" {
		return p
	}
	return p.Subset(rule.Subset(subset).GetTrafficPolicy(), port)
}

// OriginalDestination tells whether the load balancer is to use the caller's destination address.
func (p Policy) OriginalDestination() bool {
	return p.LoadBalancer.GetSimple() == networking.LoadBalancerSettings_PASSTHROUGH
}

// SendsUnhealthy tells whether endpoints that are not healthy are sent for the service, s being the process's settings.
func (p Policy) SendsUnhealthy(s *model.Settings, svc *model.Service) bool {
	return ForcesUnhealthy(s, svc) || s.AutoSendUnhealthy && p.Outlier.GetMinHealthPercent() <= 0
}

// ForcesUnhealthy tells whether unhealthy endpoints are sent for the service whatever its policy says about panic.
func ForcesUnhealthy(s *model.Settings, svc *model.Service) bool {
	return s.SendUnhealthyEndpoints || svc.TrafficDistribution != model.DistributeAny
}

// TLSFor returns the TLS settings that a rule names for a subset, else for the port, else for all ports; nil if it names
// none. Unlike a Policy, a subset's port-level settings without TLS do not hide the subset's own.
func TLSFor(rule *model.DestinationRule, port uint32, subset string) *networking.ClientTLSSettings {
	if rule == nil {
		return nil
	}
	if subset != "" {
		own := rule.Subset(subset).GetTrafficPolicy()
		if t := portLevel(own, port).GetTls(); t != nil {
			return t
		}
		if t := own.GetTls(); t != nil {
			return t
		}
	}
	return ForPort(rule, port).TLS
}
