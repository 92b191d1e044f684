package listener

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/policy"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// inboundUnit is all inbound listeners of a proxy: they share what is decided about the workload.
type inboundUnit struct{}

func inboundUnits(c *view.Context) []any { return append([]any{inboundUnit{}}, tunnelUnits(c)...) }

const virtualInbound = "virtualInbound"

// inboundBuilder builds a proxy's inbound listeners.
type inboundBuilder struct {
	c       *view.Context
	filters *filter.Set
	policy  *policy.Set
	http    filter.Policy
	tcp     filter.TCPPolicy
	cert    bool
	tunnel  bool // connections come out of a tunnel
}

func newInboundBuilder(c *view.Context) *inboundBuilder {
	b := &inboundBuilder{c: c, filters: filter.New(c), cert: c.HasCertificate()}
	b.policy = policy.New(c, b.filters)
	return b
}

func buildInbound(c *view.Context) ([]*translate.Message, error) {
	ports := inboundPorts(c)
	if len(ports) == 0 && c.Interception() == view.None {
		return nil, nil
	}
	b := newInboundBuilder(c)
	b.http, b.tcp = b.policy.HTTP(), b.policy.TCP()
	var out []*translate.Message
	if c.Interception() != view.None {
		l := b.virtual(ports)
		out = append(out, &translate.Message{Name: l.Name, Proto: l})
	}
	for _, p := range ports {
		if !p.bound {
			continue
		}
		if l := b.bound(p); len(l.FilterChains) > 0 {
			out = append(out, &translate.Message{Name: l.Name, Proto: l})
		}
	}
	return out, nil
}

// virtual returns the listener that all redirected inbound connections reach.
func (b *inboundBuilder) virtual(ports []inboundPort) *listenerv3.Listener {
	number := uint32(b.c.Mesh().Config.GetProxyInboundListenPort())
	binds := wildcards(b.c.Family())
	if !b.c.Settings().DualStack {
		binds = binds[:1]
	}
	l := b.listener(virtualInbound, binds, number)
	transparent := b.c.Interception() == view.TProxy
	if transparent {
		l.Transparent = wrapperspb.Bool(true)
	}
	l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{
		Name:             "virtualInbound-blackhole",
		FilterChainMatch: &listenerv3.FilterChainMatch{DestinationPort: wrapperspb.UInt32(number)},
		Filters:          blackHole(b.filters, filter.Inbound),
	})
	need := inspections{}
	need.need(number, false, false)
	for _, p := range append(b.passthrough(ports), ports...) {
		if !p.bound {
			l.FilterChains = append(l.FilterChains, b.chains(p, need)...)
		}
	}
	l.ListenerFilters = append(l.ListenerFilters, originalDst(b.filters))
	if transparent {
		l.ListenerFilters = append(l.ListenerFilters, originalSrc(b.filters))
	}
	l.ListenerFilters = append(l.ListenerFilters, need.filters(b.filters)...)
	return l
}

// bound returns the listener of a port that the proxy opens itself.
func (b *inboundBuilder) bound(p inboundPort) *listenerv3.Listener {
	l := b.listener(listenerName(p.binds[0], p.target), p.binds, p.target)
	need := inspections{}
	l.FilterChains = b.chains(p, need)
	l.ListenerFilters = need.filters(b.filters)
	return l
}

func (b *inboundBuilder) listener(name string, binds []string, port uint32) *listenerv3.Listener {
	l := &listenerv3.Listener{
		Name: name, TrafficDirection: corev3.TrafficDirection_INBOUND,
		ContinueOnListenerFiltersTimeout:     true,
		ListenerFiltersTimeout:               detectionTimeout(b.c),
		MaxConnectionsToAcceptPerSocketEvent: wrapperspb.UInt32(1),
		AccessLog:                            b.filters.ListenerLog(filter.Inbound),
	}
	setAddresses(l, binds, port)
	if b.c.Meta("INBOUND_LISTENER_EXACT_BALANCE") == "true" {
		l.ConnectionBalanceConfig = exactBalance()
	}
	return l
}

// passthrough returns the ports that no service names: all of them together, and by themselves those for which a policy
// has a mode of its own.
func (b *inboundBuilder) passthrough(ports []inboundPort) []inboundPort {
	own := inboundPort{
		passthrough: true, protocol: model.Unsupported, cluster: traffic.InboundPassthrough, stat: traffic.InboundPassthrough,
	}
	if pattern := b.c.Mesh().Config.GetInboundClusterStatName(); pattern != "" {
		own.stat = statName(pattern, &model.Service{}, statPort{}, "")
	}
	out := []inboundPort{own}
	modes := b.c.InboundPortMTLS()
	var extra []uint32
	for n := range modes {
		if !slices.ContainsFunc(ports, func(p inboundPort) bool { return p.target == n }) {
			extra = append(extra, n)
		}
	}
	slices.Sort(extra)
	for _, n := range extra {
		p := own
		p.target = n
		out = append(out, p)
	}
	return out
}

// chains returns a port's filter chains and notes what its matches ask of the inspectors.
func (b *inboundBuilder) chains(p inboundPort, need inspections) []*listenerv3.FilterChain {
	var out []*listenerv3.FilterChain
	for _, m := range b.matches(p) {
		need.need(p.target, m.transport == transportTLS, slices.Contains(m.alpn, "h2c"))
		c := &listenerv3.FilterChain{
			Name:             b.chainName(p, m),
			FilterChainMatch: m.proto(p.target),
			Metadata:         p.metadata,
			TransportSocket:  b.socket(p, m),
		}
		if m.http {
			c.Filters = b.filters.Requests(b.httpOptions(p, m))
		} else {
			c.Filters = b.filters.Connection(filter.TCP{
				Direction: filter.Inbound, StatPrefix: p.stat, Cluster: p.cluster, Protocol: p.protocol, Policy: b.tcp, Port: p.target,
				Peer: b.peer(m),
			})
		}
		out = append(out, c)
	}
	return out
}

// chainName is what users see in logs. Stock Envoys get names that are unique in the listener besides, so that a change
// of one chain leaves the connections of the others alone.
func (b *inboundBuilder) chainName(p inboundPort, m chainMatch) string {
	name := virtualInbound
	switch {
	case !p.passthrough:
		name = listenerName(p.binds[0], p.target)
	case m.http:
		name = "virtualInbound-catchall-http"
	}
	if !b.filters.Stock() {
		return name
	}
	if p.passthrough && p.target != 0 {
		name = listenerName(name, p.target)
	}
	return strings.Join([]string{name, m.label()}, "-")
}

func (b *inboundBuilder) socket(p inboundPort, m chainMatch) *corev3.TransportSocket {
	if m.context == nil {
		return nil
	}
	return &corev3.TransportSocket{
		Name:       "envoy.transport_sockets.tls",
		ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: b.filters.Pack(m.context(b.c, p))},
	}
}
