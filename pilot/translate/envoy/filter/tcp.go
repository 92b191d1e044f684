package filter

import (
	"time"

	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/config/accesslog/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	logtypev3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	mongov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/mongo_proxy/v3"
	redisv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/redis_proxy/v3"
	snidynv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/sni_dynamic_forward_proxy/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	udpa "github.com/cncf/xds/go/udpa/type/v1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/extension"
)

// WeightedCluster is one of several destinations of a TCP chain.
type WeightedCluster struct {
	Name   string
	Weight uint32
}

// TCP says what is particular about one TCP chain.
type TCP struct {
	Direction  Direction
	StatPrefix string
	// Cluster is the only destination, or Weighted are several.
	Cluster  string
	Weighted []WeightedCluster
	Protocol model.Protocol
	// IdleTimeout wins over the proxy's own.
	IdleTimeout  *durationpb.Duration
	MaxDuration  *durationpb.Duration
	HashSourceIP bool
	Tunnel       *tcpv3.TcpProxy_TunnelingConfig
	// Forward is the DNS cache of a service whose names are resolved when they are asked for, at port ForwardPort.
	Forward     *cachev3.DnsCacheConfig
	ForwardPort uint32
	// Port is the listener's port as users know it, by which plugins are selected.
	Port uint32
	// Policy are the filters that authorize connections; inbound only.
	Policy TCPPolicy
	// Peer says how callers are known; inbound only.
	Peer Peer
	// Fallback is set for outbound chains that take what no other takes: plugins have no part in them.
	Fallback bool
	// BlackHole is set for chains that swallow loops: they log nothing.
	BlackHole bool
}

// TCPPolicy is the filters that decide about connections: Custom ask others, and stand before the rest.
type TCPPolicy struct{ Custom, Authz []*listenerv3.Filter }

// NetworkFilter returns a network filter with its configuration.
func (s *Set) NetworkFilter(name string, m proto.Message) *listenerv3.Filter {
	return &listenerv3.Filter{Name: name, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: s.Pack(m)}}
}

// exchange returns the network filters that come first on every inbound chain.
func (s *Set) exchange() []*listenerv3.Filter {
	if s.stock || !s.c.Settings().EnableMetadataExchange {
		return nil
	}
	return []*listenerv3.Filter{s.NetworkFilter(nameExchange, &udpa.TypedStruct{
		TypeUrl: "type.googleapis.com/envoy.tcp.metadataexchange.config.MetadataExchange",
		Value: &structpb.Struct{Fields: map[string]*structpb.Value{
			"protocol":         structpb.NewStringValue("istio-peer-exchange"),
			"enable_discovery": structpb.NewBoolValue(true),
		}},
	})}
}

// Connection returns the network filters of a TCP chain in their fixed order (translation-l4 §5.7).
func (s *Set) Connection(o TCP) []*listenerv3.Filter {
	var out []*listenerv3.Filter
	if o.Direction == Inbound {
		out = append(out, s.exchange()...)
	}
	out = append(out, s.own(len(s.metrics(o.metrics())) > 0)...)
	var added extension.Phases[*listenerv3.Filter]
	if !o.Fallback && !o.BlackHole {
		added = s.added.Network(o.Direction.mode(), o.Port)
	}
	out = append(out, o.Policy.Custom...)
	out = append(out, added.Authn...)
	out = append(out, added.Authz...)
	out = append(out, o.Policy.Authz...)
	out = append(out, added.Stats...)
	out = append(out, added.Rest...)
	for _, m := range s.stats(o.Direction) {
		out = append(out, s.NetworkFilter(nameStats, m))
	}
	if o.Forward != nil {
		out = append(out, s.NetworkFilter(nameForwardSNI, &snidynv3.FilterConfig{
			DnsCacheConfig: o.Forward, PortSpecifier: &snidynv3.FilterConfig_PortValue{PortValue: o.ForwardPort},
		}))
	}
	return append(out, s.proxyFilters(o)...)
}

// proxyFilters returns the filters that carry the bytes, with the protocol's own inspector before them.
func (s *Set) proxyFilters(o TCP) []*listenerv3.Filter {
	set := s.c.Settings()
	var out []*listenerv3.Filter
	switch {
	case o.Protocol == model.Mongo && set.EnableMongoFilter:
		out = append(out, s.NetworkFilter(nameMongo, &mongov3.MongoProxy{StatPrefix: o.StatPrefix}))
	case o.Protocol == model.MySQL && set.EnableMySQLFilter && !s.stock: // not part of a stock Envoy
		out = append(out, &listenerv3.Filter{Name: nameMySQL, ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: mysqlProxy(o.StatPrefix)}})
	case o.Protocol == model.Redis && set.EnableRedisFilter:
		return []*listenerv3.Filter{s.NetworkFilter(nameRedis, redisProxy(o))}
	}
	return append(out, s.NetworkFilter(nameTCPProxy, s.tcpProxy(o)))
}

func (s *Set) tcpProxy(o TCP) *tcpv3.TcpProxy {
	p := &tcpv3.TcpProxy{
		StatPrefix: o.StatPrefix, IdleTimeout: o.IdleTimeout, MaxDownstreamConnectionDuration: o.MaxDuration,
		TunnelingConfig: o.Tunnel, AccessLog: s.tcpLog(o),
	}
	s.count(p, o)
	if len(o.Weighted) == 0 {
		p.ClusterSpecifier = &tcpv3.TcpProxy_Cluster{Cluster: o.Cluster}
	} else {
		w := &tcpv3.TcpProxy_WeightedCluster{}
		for _, c := range o.Weighted {
			w.Clusters = append(w.Clusters, &tcpv3.TcpProxy_WeightedCluster_ClusterWeight{Name: c.Name, Weight: c.Weight})
		}
		p.ClusterSpecifier = &tcpv3.TcpProxy_WeightedClusters{WeightedClusters: w}
	}
	if p.IdleTimeout == nil && !o.BlackHole {
		p.IdleTimeout = s.idleTimeout()
	}
	if o.HashSourceIP {
		p.HashPolicy = []*typev3.HashPolicy{{
			PolicySpecifier: &typev3.HashPolicy_SourceIp_{SourceIp: &typev3.HashPolicy_SourceIp{}},
		}}
	}
	return p
}

// count makes p count connections, if they are counted.
func (s *Set) count(p *tcpv3.TcpProxy, o TCP) {
	m := s.metrics(o.metrics())
	if len(m) == 0 {
		return
	}
	p.AccessLogOptions = &tcpv3.TcpProxy_TcpAccessLogOptions{FlushAccessLogOnConnected: true}
	for _, l := range p.AccessLog { // connections are still logged once only
		l.Filter = and(logType(logtypev3.AccessLogType_TcpUpstreamConnected, true), l.Filter)
	}
	p.AccessLog = append(p.AccessLog, m...)
	if o.Peer == PeerMutual { // the peer is known when the connection is counted
		p.UpstreamConnectMode = tcpv3.UpstreamConnectMode_ON_DOWNSTREAM_TLS_HANDSHAKE
		p.MaxEarlyDataBytes = wrapperspb.UInt32(0)
	}
}

func (o TCP) metrics() metricsID { return metricsID{o.Direction, o.Peer, true} }

func (s *Set) tcpLog(o TCP) []*accesslogv3.AccessLog {
	if o.BlackHole {
		return nil
	}
	return s.accessLog(o.Direction, true)
}

// mysqlProxy encodes the inspector's only field that matters, since its message stands in a module of rarely used
// extensions that nothing else here needs.
func mysqlProxy(statPrefix string) *anypb.Any {
	const fieldStatPrefix = 1
	b := protowire.AppendTag(nil, fieldStatPrefix, protowire.BytesType)
	return &anypb.Any{
		TypeUrl: "type.googleapis.com/envoy.extensions.filters.network.mysql_proxy.v3.MySQLProxy",
		Value:   protowire.AppendString(b, statPrefix),
	}
}

// redisTimeout is how long a Redis operation may take.
const redisTimeout = 5 * time.Second

func redisProxy(o TCP) *redisv3.RedisProxy {
	cluster := o.Cluster
	if len(o.Weighted) > 0 {
		cluster = o.Weighted[0].Name
	}
	return &redisv3.RedisProxy{
		StatPrefix:      o.StatPrefix,
		LatencyInMicros: true,
		Settings:        &redisv3.RedisProxy_ConnPoolSettings{OpTimeout: durationpb.New(redisTimeout)},
		PrefixRoutes: &redisv3.RedisProxy_PrefixRoutes{
			CatchAllRoute: &redisv3.RedisProxy_PrefixRoutes_Route{Cluster: cluster},
		},
	}
}
