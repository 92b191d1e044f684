package route

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

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

// AnyName returns the routes for names that no service has and that are resolved when they are asked for.
func AnyName(c *view.Context) *routev3.RouteConfiguration {
	u := catchAll{name: "allow_any_dynamic_dns", cluster: dynamicDNSCluster, headers: proxyHeaders(c)}
	return &routev3.RouteConfiguration{
		Name: u.name, ValidateClusters: wrapperspb.Bool(false), VirtualHosts: []*routev3.VirtualHost{u.virtualHost(c)},
	}
}

func (u catchAll) part(c *view.Context) *translate.Part {
	p, err := translate.EncodePart(u.name, u.virtualHost(c))
	if err != nil {
		return nil
	}
	return p
}

func (u catchAll) virtualHost(c *view.Context) *routev3.VirtualHost {
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
	return &routev3.VirtualHost{
		Name: u.name, Domains: []string{"*"}, Routes: []*routev3.Route{r}, IncludeRequestAttemptCount: u.headers.attemptCount,
	}
}
