package simulate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
)

// chainOf returns the filter chain for a connection, and why. Each criterion in Envoy's order keeps the chains that say
// most about it; it never goes back to those it has left out.
func chainOf(l *listenerv3.Listener, s seen) (*listenerv3.FilterChain, string) {
	if m := l.GetFilterChainMatcher(); m != nil {
		return l.GetDefaultFilterChain(), "the listener's matcher tree is not followed"
	}
	rest := l.GetFilterChains()
	for _, narrow := range [...]func([]*listenerv3.FilterChain, seen) []*listenerv3.FilterChain{
		byPort, byDestination, byServerName, byTransport, byALPN, byDirectSource, bySourceType, bySource, bySourcePort,
	} {
		rest = narrow(rest, s)
	}
	if len(rest) > 0 {
		return rest[0], describe(rest[0].GetFilterChainMatch())
	}
	if d := l.GetDefaultFilterChain(); d != nil {
		return d, "the default: no other matches " + s.String()
	}
	return nil, ""
}

// describe says what a match asks for.
func describe(m *listenerv3.FilterChainMatch) string {
	var parts []string
	if p := m.GetDestinationPort(); p != nil {
		parts = append(parts, fmt.Sprintf("port %d", p.GetValue()))
	}
	for _, r := range m.GetPrefixRanges() {
		parts = append(parts, fmt.Sprintf("destination %s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue()))
	}
	if len(m.GetServerNames()) > 0 {
		parts = append(parts, "SNI "+strings.Join(m.GetServerNames(), ","))
	}
	if m.GetTransportProtocol() != "" {
		parts = append(parts, m.GetTransportProtocol())
	}
	if len(m.GetApplicationProtocols()) > 0 {
		parts = append(parts, "ALPN "+strings.Join(m.GetApplicationProtocols(), ","))
	}
	for _, r := range m.GetSourcePrefixRanges() {
		parts = append(parts, fmt.Sprintf("source %s/%d", r.GetAddressPrefix(), r.GetPrefixLen().GetValue()))
	}
	if len(parts) == 0 {
		return "matches every connection"
	}
	return "matches " + strings.Join(parts, ", ")
}

// either keeps the chains that ask for the value if there are any, else those that do not ask.
func either(chains []*listenerv3.FilterChain, asks, indifferent func(*listenerv3.FilterChainMatch) bool) []*listenerv3.FilterChain {
	keep := func(f func(*listenerv3.FilterChainMatch) bool) []*listenerv3.FilterChain {
		var out []*listenerv3.FilterChain
		for _, c := range chains {
			if f(c.GetFilterChainMatch()) {
				out = append(out, c)
			}
		}
		return out
	}
	if out := keep(asks); len(out) > 0 {
		return out
	}
	return keep(indifferent)
}

func byPort(chains []*listenerv3.FilterChain, s seen) []*listenerv3.FilterChain {
	return either(chains, func(m *listenerv3.FilterChainMatch) bool {
		return m.GetDestinationPort() != nil && m.GetDestinationPort().GetValue() == uint32(s.destination.Port())
	}, func(m *listenerv3.FilterChainMatch) bool { return m.GetDestinationPort() == nil })
}

func byDestination(chains []*listenerv3.FilterChain, s seen) []*listenerv3.FilterChain {
	return byPrefix(chains, s.destination.Addr(), (*listenerv3.FilterChainMatch).GetPrefixRanges)
}

func byDirectSource(chains []*listenerv3.FilterChain, s seen) []*listenerv3.FilterChain {
	return byPrefix(chains, s.source.Addr(), (*listenerv3.FilterChainMatch).GetDirectSourcePrefixRanges)
}

func bySource(chains []*listenerv3.FilterChain, s seen) []*listenerv3.FilterChain {
	return byPrefix(chains, s.source.Addr(), (*listenerv3.FilterChainMatch).GetSourcePrefixRanges)
}

// byPrefix keeps the chains with the longest prefix that holds the address; one without prefixes holds every address.
func byPrefix(chains []*listenerv3.FilterChain, a netip.Addr, ranges func(*listenerv3.FilterChainMatch) []*corev3.CidrRange) []*listenerv3.FilterChain {
	best := -1
	length := func(c *listenerv3.FilterChain) int {
		list := ranges(c.GetFilterChainMatch())
		if len(list) == 0 {
			return 0
		}
		longest := -1
		for _, r := range list {
			if p, ok := prefix(r); ok && p.Contains(a.Unmap()) {
				longest = max(longest, p.Bits())
			}
		}
		return longest
	}
	for _, c := range chains {
		best = max(best, length(c))
	}
	if best < 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(chains), func(c *listenerv3.FilterChain) bool { return length(c) != best })
}

func prefix(r *corev3.CidrRange) (netip.Prefix, bool) {
	a, err := netip.ParseAddr(r.GetAddressPrefix())
	if err != nil {
		return netip.Prefix{}, false
	}
	p, err := a.Prefix(min(int(r.GetPrefixLen().GetValue()), a.BitLen()))
	return p, err == nil
}

// byServerName keeps the chains that name the server, else those of its closest wildcard, else those that name none.
func byServerName(chains []*listenerv3.FilterChain, s seen) []*listenerv3.FilterChain {
	anyName := func(m *listenerv3.FilterChainMatch) bool { return len(m.GetServerNames()) == 0 }
	candidates := []string{s.serverName}
	for rest := s.serverName; ; {
		i := strings.IndexByte(rest[min(1, len(rest)):], '.')
		if i < 0 {
			break
		}
		rest = rest[i+1:]
		candidates = append(candidates, "*"+rest)
	}
	for _, name := range candidates {
		if name == "" {
			continue
		}
		has := func(m *listenerv3.FilterChainMatch) bool { return slices.Contains(m.GetServerNames(), name) }
		if out := either(chains, has, func(*listenerv3.FilterChainMatch) bool { return false }); len(out) > 0 {
			return out
		}
	}
	return either(chains, anyName, anyName)
}

func byTransport(chains []*listenerv3.FilterChain, s seen) []*listenerv3.FilterChain {
	return either(chains, func(m *listenerv3.FilterChainMatch) bool { return m.GetTransportProtocol() == s.transport },
		func(m *listenerv3.FilterChainMatch) bool { return m.GetTransportProtocol() == "" })
}

// byALPN takes the client's protocols in its order.
func byALPN(chains []*listenerv3.FilterChain, s seen) []*listenerv3.FilterChain {
	none := func(m *listenerv3.FilterChainMatch) bool { return len(m.GetApplicationProtocols()) == 0 }
	for _, p := range s.alpn {
		has := func(m *listenerv3.FilterChainMatch) bool { return slices.Contains(m.GetApplicationProtocols(), p) }
		if out := either(chains, has, func(*listenerv3.FilterChainMatch) bool { return false }); len(out) > 0 {
			return out
		}
	}
	return either(chains, none, none)
}

func bySourceType(chains []*listenerv3.FilterChain, s seen) []*listenerv3.FilterChain {
	own := listenerv3.FilterChainMatch_EXTERNAL
	if s.source.Addr().IsLoopback() || s.source.Addr() == s.destination.Addr() {
		own = listenerv3.FilterChainMatch_SAME_IP_OR_LOOPBACK
	}
	return either(chains, func(m *listenerv3.FilterChainMatch) bool { return m.GetSourceType() == own },
		func(m *listenerv3.FilterChainMatch) bool { return m.GetSourceType() == listenerv3.FilterChainMatch_ANY })
}

func bySourcePort(chains []*listenerv3.FilterChain, s seen) []*listenerv3.FilterChain {
	return either(chains, func(m *listenerv3.FilterChainMatch) bool {
		return slices.Contains(m.GetSourcePorts(), uint32(s.source.Port()))
	}, func(m *listenerv3.FilterChainMatch) bool { return len(m.GetSourcePorts()) == 0 })
}

// handshake ends the client's TLS where the chain does, and tells whether the connection lives on.
func (w *walker) handshake(c *listenerv3.FilterChain) bool {
	m, ok := opened(c.GetTransportSocket().GetTypedConfig()).(*tlsv3.DownstreamTlsContext)
	if !ok {
		return true
	}
	switch {
	case !w.q.TLS:
		w.reset("the filter chain expects TLS, the client speaks plaintext")
		return false
	case m.GetRequireClientCertificate().GetValue() && w.q.Peer == "":
		w.reset("the filter chain asks for a client certificate of the mesh, the client has none")
		return false
	}
	w.terminated = true
	if w.q.Peer != "" {
		w.step(StageChain, chainName(c), "ends mutual TLS with "+w.q.Peer)
	} else {
		w.step(StageChain, chainName(c), "ends TLS")
	}
	return true
}
