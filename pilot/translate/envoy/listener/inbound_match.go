package listener

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/tls"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// The protocols that mesh clients offer: for HTTP, for plain connections, and all of them.
func meshHTTP() []string { return []string{"istio-http/1.0", "istio-http/1.1", "istio-h2"} }
func meshTCP() []string  { return []string{"istio-peer-exchange", "istio"} }
func meshAll() []string  { return append([]string{"istio", "istio-peer-exchange"}, meshHTTP()...) }

// chainMatch is one row of the chain matrix: which connections of a port, and what becomes of them.
type chainMatch struct {
	transport string
	alpn      []string
	http      bool
	// context, if set, terminates TLS.
	context func(*view.Context, inboundPort) proto.Message
	// own is set where that is the workload's own TLS, not the mesh's.
	own bool
}

func (m chainMatch) proto(port uint32) *listenerv3.FilterChainMatch {
	out := &listenerv3.FilterChainMatch{TransportProtocol: m.transport, ApplicationProtocols: m.alpn}
	if port != 0 {
		out.DestinationPort = wrapperspb.UInt32(port)
	}
	return out
}

// label tells the rows of a port apart.
func (m chainMatch) label() string {
	kind := "tcp"
	if m.http {
		kind = "http"
	}
	switch {
	case m.context != nil:
		return kind + "-mtls"
	case m.transport == transportTLS:
		return kind + "-tls"
	}
	return kind + "-plain"
}

func mutualHTTP(c *view.Context, _ inboundPort) proto.Message {
	return tls.Downstream(c, []string{"h2", "http/1.1"})
}

func mutualTCP(c *view.Context, _ inboundPort) proto.Message {
	return tls.Downstream(c, []string{"istio-peer-exchange", "h2", "http/1.1"})
}

// matches returns a port's rows by its mode and protocol (translation-l4 §5.2).
func (b *inboundBuilder) matches(p inboundPort) []chainMatch {
	mode := b.c.InboundMTLS(p.target)
	if b.tunnel {
		mode = model.MTLSDisable
	}
	if !b.cert {
		// who has no certificate cannot take part in mutual TLS: where it may be left out it is, else nobody gets in
		if mode == model.MTLSStrict {
			return nil
		}
		mode = model.MTLSDisable
	}
	if p.tls != nil && mode == model.MTLSDisable {
		if rows := ingressRows(p); rows != nil {
			return rows
		}
	}
	switch classOf(p.protocol) {
	case classHTTP:
		return httpRows(mode)
	case classTCP:
		return tcpRows(mode)
	}
	return autoRows(mode, b.c.Settings().HTTP10)
}

func httpRows(mode model.MTLSMode) []chainMatch {
	plain := chainMatch{transport: transportRaw, http: true}
	switch mode {
	case model.MTLSStrict:
		return []chainMatch{{transport: transportTLS, http: true, context: mutualHTTP}}
	case model.MTLSDisable:
		return []chainMatch{plain}
	}
	return []chainMatch{{transport: transportTLS, alpn: meshAll(), http: true, context: mutualHTTP}, plain}
}

func tcpRows(mode model.MTLSMode) []chainMatch {
	plain := chainMatch{transport: transportRaw}
	switch mode {
	case model.MTLSStrict:
		return []chainMatch{{transport: transportTLS, context: mutualTCP}}
	case model.MTLSDisable:
		return []chainMatch{plain}
	}
	return []chainMatch{
		{transport: transportTLS, alpn: meshAll(), context: mutualTCP},
		{transport: transportTLS}, // the application's own TLS
		plain,
	}
}

func autoRows(mode model.MTLSMode, http10 bool) []chainMatch {
	plain := []chainMatch{{transport: transportRaw, alpn: plainHTTP(http10), http: true}, {transport: transportRaw}}
	mutual := chainMatch{transport: transportTLS, alpn: meshHTTP(), http: true, context: mutualHTTP}
	switch mode {
	case model.MTLSStrict:
		return []chainMatch{mutual, {transport: transportTLS, context: mutualTCP}}
	case model.MTLSDisable:
		return plain
	}
	return []chainMatch{
		mutual, plain[0],
		{transport: transportTLS, alpn: meshTCP(), context: mutualTCP},
		plain[1],
		{transport: transportTLS},
	}
}

// ingressRows are those of a Sidecar listener that terminates TLS by itself, nil if it does not.
func ingressRows(p inboundPort) []chainMatch {
	if tls.Ingress(p.tls, nil) == nil {
		return nil
	}
	return []chainMatch{{
		transport: transportTLS, http: p.protocol == model.HTTPS, own: true,
		context: func(_ *view.Context, p inboundPort) proto.Message {
			return tls.Ingress(p.tls, []string{"h2", "http/1.1"})
		},
	}}
}

// peer says how the callers that a row lets in are known.
func (b *inboundBuilder) peer(m chainMatch) filter.Peer {
	switch {
	case b.tunnel:
		return filter.PeerTunnel
	case m.context != nil && !m.own:
		return filter.PeerMutual
	}
	return filter.PeerUnknown
}

func (b *inboundBuilder) httpOptions(p inboundPort, m chainMatch) filter.HTTP {
	stat := p.cluster + ";"
	if !p.passthrough {
		stat = "inbound_" + listenerName(p.binds[0], p.target) + ";"
	}
	return filter.HTTP{
		Direction: filter.Inbound, StatPrefix: stat, Protocol: p.protocol, Policy: b.http, Port: p.target,
		Tunnelled: b.tunnel && !p.passthrough, Peer: b.peer(m),
		Route: route.Inbound(b.c, p.cluster, route.InboundPort{
			Host: p.host, Port: p.port, Protocol: p.protocol, Dynamic: p.dynamic,
		}),
	}
}
