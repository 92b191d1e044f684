package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rawv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/raw_buffer/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/tls"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// The names that proxies know extensions by.
const (
	nameExchange      = "istio.metadata_exchange"
	nameRaw           = "envoy.transport_sockets.raw_buffer"
	nameTLS           = "envoy.transport_sockets.tls"
	nameProxyProtocol = "envoy.transport_sockets.upstream_proxy_protocol"
	nameHTTPOptions   = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
	nameCares         = "envoy.network.dns_resolver.cares"
	nameDNSCluster    = "envoy.clusters.dns"
	nameForwardProxy  = "envoy.clusters.dynamic_forward_proxy"
	namePreserveCase  = "preserve_case"
)

// maker holds the messages that clusters have in common. Nobody modifies them; clusters point to them.
type maker struct {
	tls      *tls.Upstream
	edsADS   *corev3.ConfigSource
	raw      *corev3.TransportSocket
	plain    *clusterv3.Cluster_TransportSocketMatch // for endpoints without mutual TLS
	mutual   *structpb.Struct                        // matches endpoints with mutual TLS
	breakers *clusterv3.CircuitBreakers
	noPanic  *clusterv3.Cluster_CommonLbConfig
	emptyLB  *clusterv3.Cluster_CommonLbConfig
	exchange []*clusterv3.Filter
	// options are the HTTP options without anything beside the protocol, by kind.
	options [numKinds]map[string]*anypb.Any
}

func newMaker() *maker {
	m := &maker{
		tls: tls.NewUpstream(),
		edsADS: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			InitialFetchTimeout:   durationpb.New(0), ResourceApiVersion: corev3.ApiVersion_V3,
		},
		mutual:   &structpb.Struct{Fields: map[string]*structpb.Value{"tlsMode": structpb.NewStringValue("istio")}},
		breakers: &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{unlimited()}},
		noPanic:  &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: percent(0)},
		emptyLB:  &clusterv3.Cluster_CommonLbConfig{},
	}
	m.raw = m.rawSocket(nameRaw)
	m.plain = &clusterv3.Cluster_TransportSocketMatch{
		Name: "tlsMode-disabled", Match: &structpb.Struct{}, TransportSocket: m.raw,
	}
	m.exchange = []*clusterv3.Filter{{Name: nameExchange, TypedConfig: m.pack(exchangeConfig(nil))}}
	for k := explicitH1; k < numKinds; k++ {
		m.options[k] = m.packOptions(&httpOptions{kind: k})
	}
	return m
}

func (m *maker) pack(msg proto.Message) *anypb.Any { return translate.Pack(msg) }

func (m *maker) socket(name string, msg proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{
		Name: name, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: m.pack(msg)},
	}
}

func (m *maker) rawSocket(name string) *corev3.TransportSocket {
	return m.socket(name, &rawv3.RawBuffer{})
}

// edsType says that a cluster's endpoints are asked for by its name.
func (m *maker) edsType(cl *clusterv3.Cluster) {
	discover(cl, clusterv3.Cluster_EDS)
	cl.EdsClusterConfig = &clusterv3.Cluster_EdsClusterConfig{EdsConfig: m.edsADS, ServiceName: cl.Name}
}

func discover(cl *clusterv3.Cluster, t clusterv3.Cluster_DiscoveryType) {
	cl.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: t}
}

func uint32Value[T int32 | uint32 | uint64](n T) *wrapperspb.UInt32Value {
	return wrapperspb.UInt32(uint32(n)) //nolint:gosec // users' counts are checked not to be negative
}

// job makes the clusters of one unit.
type job struct {
	*maker
	c    *view.Context
	mesh *model.Mesh
	set  *model.Settings
	kind view.Type
	err  error
}

func (m *maker) job(c *view.Context) *job {
	return &job{maker: m, c: c, mesh: c.Mesh(), set: c.Settings(), kind: c.Type()}
}

// bare returns a cluster that has only what all have.
func (j *job) bare(name, stat string) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, AltStatName: stat + ";", ConnectTimeout: j.connectTimeout()}
}

func (j *job) connectTimeout() *durationpb.Duration { return j.mesh.Config.GetConnectTimeout() }
