package route

import (
	"strconv"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// InboundPort is what one inbound HTTP chain serves. The zero value is the passthrough chain's.
type InboundPort struct {
	// Host and Port are the service's; they name the operation in traces.
	Host string
	Port uint32
	// Protocol is the service port's: gRPC is never retried.
	Protocol model.Protocol
	// Dynamic is set for services whose names are resolved at request time: only their own host is served then.
	Dynamic bool
}

// Inbound returns the inline route configuration of an inbound chain, which sends everything to clusterName.
func Inbound(c *view.Context, clusterName string, p InboundPort) *routev3.RouteConfiguration {
	port := strconv.FormatUint(uint64(p.Port), 10)
	domain := "*"
	if p.Dynamic && p.Host != "" {
		domain = p.Host
	}
	action := &routev3.RouteAction{
		ClusterSpecifier:  &routev3.RouteAction_Cluster{Cluster: clusterName},
		Timeout:           durationpb.New(0),
		MaxStreamDuration: endless(),
	}
	if p.Protocol != model.GRPC && p.Protocol != model.GRPCWeb {
		action.RetryPolicy = inboundRetries(c.Mesh().Config.GetDefaultInboundHttpRetryPolicy())
	}
	return &routev3.RouteConfiguration{
		Name:             clusterName,
		ValidateClusters: wrapperspb.Bool(false),
		VirtualHosts: []*routev3.VirtualHost{{
			Name:    "inbound|http|" + port,
			Domains: []string{domain},
			Routes: []*routev3.Route{{
				Name:      defaultRoute,
				Match:     matchAll(),
				Decorator: &routev3.Decorator{Operation: p.Host + ":" + port + "/*"},
				Action:    &routev3.Route_Route{Route: action},
			}},
		}},
	}
}

// endless lets a stream last as long as the caller's own deadline says.
func endless() *routev3.RouteAction_MaxStreamDuration {
	return &routev3.RouteAction_MaxStreamDuration{
		MaxStreamDuration: durationpb.New(0), GrpcTimeoutHeaderMax: durationpb.New(0),
	}
}

// inboundRetries repeats requests that never reached the application. The mesh may say how often and when.
func inboundRetries(mesh *networking.HTTPRetry) *routev3.RetryPolicy {
	out := &routev3.RetryPolicy{NumRetries: wrapperspb.UInt32(2), RetryOn: "reset-before-request"}
	if mesh == nil {
		return out
	}
	if mesh.GetAttempts() <= 0 {
		return nil
	}
	out.NumRetries = wrapperspb.UInt32(uint32(mesh.GetAttempts()))
	if mesh.GetRetryOn() != "" {
		out.RetryOn, out.RetriableStatusCodes = retryConditions(mesh.GetRetryOn())
	}
	out.RetryBackOff = backOff(mesh.GetBackoff())
	return out
}
