package listener

import (
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/forward"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// portBuilder builds one outbound listener.
type portBuilder struct {
	c       *view.Context
	filters *filter.Set
	unit    outboundUnit
	binds   []string
	chains  chainSet
}

// buildPort makes the listener of a unit. Chains that match what an earlier demand's chain matches are left out.
func buildPort(c *view.Context, u outboundUnit) ([]*translate.Message, error) {
	b := &portBuilder{c: c, filters: filter.New(c), unit: u, binds: strings.Split(u.bind, ",")}
	for _, d := range decodeDemands(u.demands) {
		if d.tcp {
			b.tcp(&d)
		}
		if d.http {
			b.http(&d)
		}
	}
	if len(b.chains.list) == 0 || slices.ContainsFunc(b.binds, func(bind string) bool { return !bindable(bind) }) {
		return nil, nil
	}
	for _, c := range b.chains.list {
		if !accepted(c.filters) {
			c.filters = blackHole(b.filters, filter.Outbound)
		}
	}
	l := b.listener()
	return []*translate.Message{{Name: l.Name, Proto: l}}, nil
}

// accepted tells whether Envoy takes the filters. Chains are many owners': whose filters are wrong gets nothing through.
func accepted(filters []*listenerv3.Filter) bool {
	for _, f := range filters {
		if translate.Check(f) != nil {
			return false
		}
	}
	return true
}

func listenerName(bind string, port uint32) string {
	return bind + "_" + strconv.FormatUint(uint64(port), 10)
}

func (b *portBuilder) wildcard() bool { return isWildcard(b.binds[0]) }

// http adds the chain for HTTP. Where other protocols may come in too, what the proxy sees decides.
func (b *portBuilder) http(d *demand) {
	auto := classOf(d.protocol) == classAuto
	c := &chain{name: "http"}
	if auto || b.wildcard() && !b.unit.bound && d.port != 0 {
		c.alpn, c.transport = plainHTTP(b.c.Settings().HTTP10), transportRaw
	}
	name := strconv.FormatUint(uint64(d.port), 10)
	switch {
	case d.port == 0:
		name = b.binds[0]
	case auto && !b.wildcard():
		name = d.service.Host + ":" + name
	}
	var cache *cachev3.DnsCacheConfig
	if d.forward {
		cache = b.cache(d)
	}
	c.filters = b.filters.Requests(filter.HTTP{
		Forward:    cache,
		Direction:  filter.Outbound,
		Port:       b.unit.port,
		StatPrefix: "outbound_" + listenerName(b.binds[0], b.unit.port) + ";",
		RouteName:  route.NameFor(b.c, name),
		Protocol:   d.protocol,
	})
	b.chains.add(c)
}

// cache returns the DNS cache of a service whose names are resolved when they are asked for.
func (b *portBuilder) cache(d *demand) *cachev3.DnsCacheConfig {
	if s := b.c.Service(d.service); s != nil {
		return forward.ServiceCache(b.c, s)
	}
	return nil
}

// listener assembles the chains. The one that matches everything is the default, if there are others.
func (b *portBuilder) listener() *listenerv3.Listener {
	l := outboundListener(b.c, b.binds, b.unit.port, b.unit.bound)
	all := b.chains.matchAll()
	for i, c := range b.chains.list {
		if i == all && len(b.chains.list) > 1 {
			l.DefaultFilterChain = c.proto(b.filters.Stock())
			continue
		}
		l.FilterChains = append(l.FilterChains, c.proto(b.filters.Stock()))
	}
	if all < 0 {
		l.DefaultFilterChain = b.passthrough()
	}
	b.inspect(l)
	return l
}

func (b *portBuilder) passthrough() *listenerv3.FilterChain {
	return &listenerv3.FilterChain{
		Name: passthroughChain, FilterChainMatch: &listenerv3.FilterChainMatch{},
		Filters: fallbackFilters(b.filters, b.unit.fallback),
	}
}

func fallbackFilters(f *filter.Set, cluster string) []*listenerv3.Filter {
	return f.Connection(filter.TCP{Direction: filter.Outbound, StatPrefix: cluster, Cluster: cluster, Fallback: true})
}

// inspect adds the listener filters that the chains' matches need.
func (b *portBuilder) inspect(l *listenerv3.Listener) {
	tls, http := false, false
	for _, c := range b.chains.list {
		tls = tls || len(c.sni) > 0 || c.forwarded
		http = http || len(c.alpn) > 0
	}
	l.ListenerFiltersTimeout = durationpb.New(0)
	if tls {
		l.ListenerFilters = append(l.ListenerFilters, tlsInspector(b.filters))
	}
	if http {
		l.ListenerFilters = append(l.ListenerFilters, httpInspector(b.filters))
		l.ListenerFiltersTimeout = detectionTimeout(b.c)
	}
}

func detectionTimeout(c *view.Context) *durationpb.Duration {
	if d := c.Mesh().Config.GetProtocolDetectionTimeout(); d != nil {
		return d
	}
	return durationpb.New(0)
}

// outboundListener returns a listener without chains.
func outboundListener(c *view.Context, binds []string, port uint32, bound bool) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name: listenerName(binds[0], port), TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		ContinueOnListenerFiltersTimeout: true,
	}
	setAddresses(l, binds, port)
	if bound {
		l.MaxConnectionsToAcceptPerSocketEvent = wrapperspb.UInt32(1)
	} else {
		l.BindToPort = wrapperspb.Bool(false)
	}
	if c.Meta("OUTBOUND_LISTENER_EXACT_BALANCE") == "true" {
		l.ConnectionBalanceConfig = exactBalance()
	}
	return l
}

func exactBalance() *listenerv3.Listener_ConnectionBalanceConfig {
	return &listenerv3.Listener_ConnectionBalanceConfig{
		BalanceType: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance_{
			ExactBalance: &listenerv3.Listener_ConnectionBalanceConfig_ExactBalance{},
		},
	}
}

// httpProxyUnit is the listener for clients that know they talk to a proxy.
type httpProxyUnit struct {
	bind string
	port uint32
}

// httpProxyPort returns the port of the HTTP proxy listener, 0 for none.
func httpProxyPort(c *view.Context) uint32 {
	if n, err := strconv.ParseUint(c.Meta("HTTP_PROXY_PORT"), 10, 16); err == nil && n != 0 {
		return uint32(n)
	}
	if n := c.Mesh().Config.GetProxyHttpPort(); n > 0 {
		return uint32(n)
	}
	return 0
}

func buildHTTPProxy(c *view.Context, u httpProxyUnit) ([]*translate.Message, error) {
	f := filter.New(c)
	l := outboundListener(c, strings.Split(u.bind, ","), u.port, true)
	l.ListenerFiltersTimeout = durationpb.New(0)
	ch := &chain{name: "http", filters: f.Requests(filter.HTTP{
		Direction: filter.Outbound, Port: u.port, StatPrefix: "outbound_" + l.Name + ";", RouteName: route.NameFor(c, "http_proxy"), AbsoluteURL: true,
	})}
	l.FilterChains = []*listenerv3.FilterChain{ch.proto(f.Stock())}
	return []*translate.Message{{Name: l.Name, Proto: l}}, nil
}

// virtualUnit is the listener that all redirected outbound connections reach first.
type virtualUnit struct {
	bind, fallback string
	// anyName tells that names which no service has are resolved when they are asked for.
	anyName bool
}

const virtualOutbound = "virtualOutbound"

func buildVirtualOutbound(c *view.Context, u virtualUnit) ([]*translate.Message, error) {
	f := filter.New(c)
	port := uint32(c.Mesh().Config.GetProxyListenPort())
	l := &listenerv3.Listener{
		Name: virtualOutbound, TrafficDirection: corev3.TrafficDirection_OUTBOUND,
		UseOriginalDst:                       wrapperspb.Bool(true),
		MaxConnectionsToAcceptPerSocketEvent: wrapperspb.UInt32(1),
		AccessLog:                            f.ListenerLog(filter.Outbound),
	}
	setAddresses(l, strings.Split(u.bind, ","), port)
	if c.Interception() == view.TProxy {
		l.Transparent = wrapperspb.Bool(true)
	}
	l.FilterChains = []*listenerv3.FilterChain{
		{
			Name: "virtualOutbound-blackhole",
			// a connection to the listener itself would come back for ever
			FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(port)},
			Filters:          blackHole(f, filter.Outbound),
		},
	}
	if u.anyName {
		resolveAnyName(c, f, l)
	}
	l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{Name: "virtualOutbound-catchall-tcp", Filters: fallbackFilters(f, u.fallback)})
	return []*translate.Message{{Name: l.Name, Proto: l}}, nil
}

// resolveAnyName adds the chain for requests to hosts that no service has.
func resolveAnyName(c *view.Context, f *filter.Set, l *listenerv3.Listener) {
	l.ListenerFilters = append(l.ListenerFilters, httpInspector(f))
	l.ListenerFiltersTimeout, l.ContinueOnListenerFiltersTimeout = detectionTimeout(c), true
	l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{
		Name:             "virtualOutbound-catchall-tcp-http",
		FilterChainMatch: &listenerv3.FilterChainMatch{ApplicationProtocols: plainHTTP(c.Settings().HTTP10)},
		Filters: f.Requests(filter.HTTP{
			Direction: filter.Outbound, StatPrefix: traffic.DynamicDNS + ";", Route: route.AnyName(c), Protocol: model.HTTP,
		}),
	})
}

func blackHole(f *filter.Set, d filter.Direction) []*listenerv3.Filter {
	return f.Connection(filter.TCP{Direction: d, StatPrefix: traffic.BlackHole, Cluster: traffic.BlackHole, BlackHole: true})
}
