package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// catchAll is the virtual host for hosts that nobody knows. Without a cluster they are refused.
type catchAll struct {
	name, cluster string
	headers       headerFlags
}

const (
	passthroughCluster = "PassthroughCluster"
	dynamicDNSCluster  = "AllowAnyDynamicDNSCluster"
	blockedStatus      = 502
)

// catchAllOf returns what an outbound policy makes of unknown hosts.
func catchAllOf(p *networking.OutboundTrafficPolicy, h headerFlags) catchAll {
	out := catchAll{name: "block_all", headers: h}
	// A Sidecar's modes are the mesh's, which has one more.
	switch mesh.MeshConfig_OutboundTrafficPolicy_Mode(p.GetMode()) {
	case mesh.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY:
		out.name, out.cluster = "allow_any", passthroughCluster
		if d := p.GetEgressProxy(); d != nil {
			out.cluster = clusterName(d.GetHost(), d.GetSubset(), d.GetPort().GetNumber())
		}
	case mesh.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS:
		out.name, out.cluster = "allow_any_dynamic_dns", dynamicDNSCluster
	}
	return out
}

func (u catchAll) part(c *view.Context) *translate.Part {
	r := &routev3.Route{Name: u.name, Match: matchAll()}
	if u.cluster == "" {
		r.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: blockedStatus}}
	} else {
		action := &routev3.RouteAction{
			ClusterSpecifier:     &routev3.RouteAction_Cluster{Cluster: u.cluster},
			AppendXForwardedHost: u.headers.forwardedHost,
		}
		(&translator{c: c, form: formOf(c)}).setTimeout(action, nil)
		r.Action = &routev3.Route_Route{Route: action}
	}
	p, err := translate.EncodePart(u.name, &routev3.VirtualHost{
		Name: u.name, Domains: []string{"*"}, Routes: []*routev3.Route{r}, IncludeRequestAttemptCount: u.headers.attemptCount,
	})
	if err != nil {
		return nil
	}
	return p
}
