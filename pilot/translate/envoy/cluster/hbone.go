package cluster

import (
	"slices"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	internalv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/internal_upstream/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

const (
	nameInternal = "envoy.transport_sockets.internal_upstream"
	hbonePort    = 15008
	hboneIdle    = time.Hour
)

// takesHBONE tells whether every endpoint of a service does: its peers then need no metadata exchange.
func (j *job) takesHBONE(s *model.Service) bool {
	all := j.c.Endpoints(s.ServiceKey).All
	return len(all) > 0 && !slices.ContainsFunc(all, func(e *model.Endpoint) bool { return !e.HBONE })
}

// tunnelMatches sets the transport socket matches of a cluster some of whose endpoints may take the tunnel, socket
// being what the others get (translation-l4 §2.8). Endpoints that the proxy finds itself cannot be told apart.
func (j *job) tunnelMatches(cl *clusterv3.Cluster, t *target, s secured, socket *corev3.TransportSocket) {
	switch {
	case socket == nil:
		cl.TransportSocketMatches = append(j.hbone(t, nil), j.plainMatch(t))
	case s.client.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL:
		mutual := &clusterv3.Cluster_TransportSocketMatch{
			Name: "tlsMode-istio", Match: &structpb.Struct{}, TransportSocket: j.proxyProtocol(t, socket),
		}
		cl.TransportSocketMatches = append(j.hbone(t, nil), mutual)
		if s.auto {
			mutual.Match = j.mutual
			cl.TransportSocketMatches = append(cl.TransportSocketMatches, j.plainMatch(t))
		}
	default:
		cl.TransportSocketMatches = append(j.hbone(t, socket), &clusterv3.Cluster_TransportSocketMatch{
			Name: "user", Match: &structpb.Struct{}, TransportSocket: j.proxyProtocol(t, socket),
		})
	}
}

// hbone matches endpoints that take the tunnel. Nil inner means plaintext within.
func (j *job) hbone(t *target, inner *corev3.TransportSocket) []*clusterv3.Cluster_TransportSocketMatch {
	if inner == nil {
		inner = j.raw
	}
	from := func(name string, kind *metadatav3.MetadataKind) *internalv3.InternalUpstreamTransport_MetadataValueSource {
		return &internalv3.InternalUpstreamTransport_MetadataValueSource{Name: name, Kind: kind}
	}
	host := &metadatav3.MetadataKind{Kind: &metadatav3.MetadataKind_Host_{Host: &metadatav3.MetadataKind_Host{}}}
	cluster := &metadatav3.MetadataKind{Kind: &metadatav3.MetadataKind_Cluster_{Cluster: &metadatav3.MetadataKind_Cluster{}}}
	transport := &internalv3.InternalUpstreamTransport{
		PassthroughMetadata: []*internalv3.InternalUpstreamTransport_MetadataValueSource{
			from(traffic.OriginalDst, host), from("istio", cluster), from("istio", host),
		},
		TransportSocket: inner,
	}
	if j.set.Raw["AMBIENT_ENABLE_BAGGAGE"] == "true" {
		transport.PassthroughMetadata = append(transport.PassthroughMetadata,
			from("istio.peer_metadata", cluster), from("istio.peer_metadata", host))
	}
	return []*clusterv3.Cluster_TransportSocketMatch{{
		Name:            "hbone",
		Match:           &structpb.Struct{Fields: map[string]*structpb.Value{"tunnel": structpb.NewStringValue("http")}},
		TransportSocket: j.proxyProtocol(t, j.socket(nameInternal, transport)),
	}}
}

// originate makes the cluster that carries the tunnel to the endpoint's own address.
func (j *job) originate() *clusterv3.Cluster {
	cl := j.bare(traffic.ConnectOriginate, traffic.ConnectOriginate)
	discover(cl, clusterv3.Cluster_ORIGINAL_DST)
	cl.LbPolicy, cl.CleanupInterval = clusterv3.Cluster_CLUSTER_PROVIDED, durationpb.New(time.Minute)
	cl.CircuitBreakers = j.breakers
	cl.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{
		UpstreamPortOverride: uint32Value(uint32(hbonePort)),
		MetadataKey: &metadatav3.MetadataKey{Key: traffic.OriginalDst, Path: []*metadatav3.MetadataKey_PathSegment{{
			Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: "waypoint"},
		}}},
	}}
	idle := j.mesh.Config.GetHboneIdleTimeout()
	if idle == nil {
		idle = durationpb.New(hboneIdle)
	}
	cl.TypedExtensionProtocolOptions = map[string]*anypb.Any{nameHTTPOptions: j.pack(&httpv3.HttpProtocolOptions{
		CommonHttpProtocolOptions: &corev3.HttpProtocolOptions{IdleTimeout: idle},
		UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
			ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
				ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
					Http2ProtocolOptions: &corev3.Http2ProtocolOptions{AllowConnect: true},
				},
			},
		},
	})}
	cl.TransportSocket = j.socket("tls", j.tls.Tunnel(j.c))
	return cl
}

// internal makes the cluster that leads to an internal listener of the same name.
func (j *job) internal(name string) *clusterv3.Cluster {
	cl := &clusterv3.Cluster{Name: name, AltStatName: name + ";", CircuitBreakers: j.breakers}
	discover(cl, clusterv3.Cluster_STATIC)
	cl.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
		LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
			Address: &corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{
				EnvoyInternalAddress: &corev3.EnvoyInternalAddress{
					AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{ServerListenerName: name},
				},
			}},
		}}}},
	}}}
	o := httpOptions{kind: asDownstream, common: &corev3.HttpProtocolOptions{IdleTimeout: durationpb.New(passthroughIdle)}}
	j.setOptions(cl, &o)
	cl.TransportSocket = j.socket("internal_upstream", &internalv3.InternalUpstreamTransport{
		TransportSocket: j.rawSocket("raw_buffer"),
	})
	return cl
}

func hboneUnits(c *view.Context) []any {
	var units []any
	if c.Type() == view.Sidecar && c.ListensHBONE() {
		units = append(units, fixedUnit(traffic.MainInternal))
	}
	if c.SendsHBONE() {
		units = append(units, fixedUnit(traffic.ConnectOriginate))
	}
	return units
}
