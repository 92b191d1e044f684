package filter

import (
	cachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	forwardv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/dynamic_forward_proxy/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	grpcstatsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_stats/v3"
	grpcwebv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/grpc_web/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	udpa "github.com/cncf/xds/go/udpa/type/v1"
	alpn "istio.io/api/envoy/config/filter/http/alpn/v2alpha1"
	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/forward"
)

// HTTPFilter returns an HTTP filter with its configuration.
func (s *Set) HTTPFilter(name string, m proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: s.Pack(m)}}
}

// httpFilters returns a chain's HTTP filters in their fixed order (translation-l4 §5.6).
func (s *Set) httpFilters(o HTTP) []*hcmv3.HttpFilter {
	var out []*hcmv3.HttpFilter
	add := func(name string, m proto.Message) {
		out = append(out, s.HTTPFilter(name, m))
	}
	exchange := s.c.Settings().EnableMetadataExchange && !s.stock
	if exchange && !o.Tunnelled {
		add(nameExchange, s.peerMetadata(o.Direction))
	}
	out = append(out, s.peerFilters(o)...)
	added := s.added.HTTP(o.Direction.mode(), o.Port)
	out = append(out, o.Policy.Custom...)
	out = append(out, added.Authn...)
	out = append(out, o.Policy.Authn...)
	out = append(out, added.Authz...)
	out = append(out, o.Policy.Authz...)
	out = append(out, added.Stats...)
	out = append(out, added.Rest...)
	if o.Protocol == model.GRPCWeb {
		add(nameGRPCWeb, &grpcwebv3.GrpcWeb{})
	}
	add(nameGRPCStats, &grpcstatsv3.FilterConfig{
		EmitFilterState:              true,
		PerMethodStatSpecifier:       &grpcstatsv3.FilterConfig_StatsForAllMethods{StatsForAllMethods: wrapperspb.Bool(false)},
		EnableUpstreamStats:          false,
		ReplaceDotsInGrpcServiceName: false,
	})
	if o.Direction == Outbound && !s.stock {
		add(nameALPN, alpnOverrides())
	}
	add(nameFault, &faultv3.HTTPFault{})
	add(nameCORS, &corsv3.Cors{})
	for _, m := range s.stats(o.Direction) {
		add(nameStats, m)
	}
	if o.Direction == Outbound && s.c.Settings().EnablePersistentSessionFilter {
		add(nameSession, &sessionv3.StatefulSession{})
	}
	if o.Direction == Outbound {
		for _, cache := range s.forwarded(o) {
			add(nameForward, &forwardv3.FilterConfig{
				ImplementationSpecifier: &forwardv3.FilterConfig_DnsCacheConfig{DnsCacheConfig: cache},
			})
		}
	}
	add(nameRouter, &routerv3.Router{
		SuppressEnvoyHeaders: s.ProxyConfig().GetProxyHeaders().GetEnvoyDebugHeaders().GetDisabled().GetValue(),
	})
	return out
}

// forwarded are the DNS caches that a chain's requests may be resolved by. A filter leaves the requests for others alone.
func (s *Set) forwarded(o HTTP) []*cachev3.DnsCacheConfig {
	var out []*cachev3.DnsCacheConfig
	if o.Forward != nil {
		out = append(out, o.Forward)
	}
	if forward.AnyPolicy(s.c) != nil {
		out = append(out, forward.AnyCache(s.c))
	}
	return out
}

// alpnOverrides is the ALPN that a request's upstream connection offers, by upstream protocol.
func alpnOverrides() *alpn.FilterConfig {
	return &alpn.FilterConfig{AlpnOverride: []*alpn.FilterConfig_AlpnOverride{
		{UpstreamProtocol: alpn.FilterConfig_HTTP10, AlpnOverride: []string{"istio-http/1.0", "istio", "http/1.0"}},
		{UpstreamProtocol: alpn.FilterConfig_HTTP11, AlpnOverride: []string{"istio-http/1.1", "istio", "http/1.1"}},
		{UpstreamProtocol: alpn.FilterConfig_HTTP2, AlpnOverride: []string{"istio-h2", "istio", "h2"}},
	}}
}

const peerMetadataType = "type.googleapis.com/io.istio.http.peer_metadata.Config"

// peerMetadata is the exchange of workload names over headers. Its message type is not published, so it travels as a
// TypedStruct.
func (s *Set) peerMetadata(d Direction) *udpa.TypedStruct {
	side := "upstream"
	if d == Inbound {
		side = "downstream"
	}
	headers := object(nil)
	if d == Outbound && s.ProxyConfig().GetProxyHeaders().GetMetadataExchangeHeaders().GetMode() ==
		meshconfig.ProxyConfig_ProxyHeaders_IN_MESH {
		headers = object(map[string]*structpb.Value{"skip_external_clusters": structpb.NewBoolValue(true)})
	}
	return &udpa.TypedStruct{
		TypeUrl: peerMetadataType,
		Value: &structpb.Struct{Fields: map[string]*structpb.Value{
			side + "_discovery": list(
				object(map[string]*structpb.Value{"istio_headers": object(nil)}),
				object(map[string]*structpb.Value{"workload_discovery": object(nil)}),
			),
			side + "_propagation": list(object(map[string]*structpb.Value{"istio_headers": headers})),
		}},
	}
}

// TunnelPeerMetadata is the discovery of who is at the other end of an HBONE tunnel.
func (s *Set) TunnelPeerMetadata() *udpa.TypedStruct {
	return &udpa.TypedStruct{
		TypeUrl: peerMetadataType,
		Value: &structpb.Struct{Fields: map[string]*structpb.Value{
			"downstream_discovery": list(object(map[string]*structpb.Value{"workload_discovery": object(nil)})),
			"shared_with_upstream": structpb.NewBoolValue(true),
		}},
	}
}

func object(fields map[string]*structpb.Value) *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: fields})
}

func list(v ...*structpb.Value) *structpb.Value {
	return structpb.NewListValue(&structpb.ListValue{Values: v})
}
