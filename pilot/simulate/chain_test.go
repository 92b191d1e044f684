package simulate

import (
	"net/netip"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

func match(change ...func(*listenerv3.FilterChainMatch)) *listenerv3.FilterChainMatch {
	m := &listenerv3.FilterChainMatch{}
	for _, f := range change {
		f(m)
	}
	return m
}

func port(n uint32) func(*listenerv3.FilterChainMatch) {
	return func(m *listenerv3.FilterChainMatch) { m.DestinationPort = wrapperspb.UInt32(n) }
}

func to(address string, bits uint32) func(*listenerv3.FilterChainMatch) {
	return func(m *listenerv3.FilterChainMatch) {
		m.PrefixRanges = append(m.PrefixRanges, &corev3.CidrRange{AddressPrefix: address, PrefixLen: wrapperspb.UInt32(bits)})
	}
}

func from(address string, bits uint32) func(*listenerv3.FilterChainMatch) {
	return func(m *listenerv3.FilterChainMatch) {
		m.SourcePrefixRanges = append(m.SourcePrefixRanges, &corev3.CidrRange{AddressPrefix: address, PrefixLen: wrapperspb.UInt32(bits)})
	}
}

func sni(names ...string) func(*listenerv3.FilterChainMatch) {
	return func(m *listenerv3.FilterChainMatch) { m.ServerNames = names }
}

func protocol(p string) func(*listenerv3.FilterChainMatch) {
	return func(m *listenerv3.FilterChainMatch) { m.TransportProtocol = p }
}

func alpn(names ...string) func(*listenerv3.FilterChainMatch) {
	return func(m *listenerv3.FilterChainMatch) { m.ApplicationProtocols = names }
}

func local(m *listenerv3.FilterChainMatch) {
	m.SourceType = listenerv3.FilterChainMatch_SAME_IP_OR_LOOPBACK
}

func TestFilterChainPrecedence(t *testing.T) {
	t.Parallel()
	plain := seen{source: netip.MustParseAddrPort("10.1.0.1:1"), destination: netip.MustParseAddrPort("10.2.0.2:443"), transport: transportRaw}
	tls := plain
	tls.transport, tls.serverName, tls.alpn = transportTLS, "a.b.example.com", []string{"h2", "http/1.1"}
	type chains map[string]*listenerv3.FilterChainMatch
	for _, c := range []struct {
		name   string
		chains chains
		seen   seen
		want   string
	}{
		{"a port before everything", chains{"port": match(port(443)), "address": match(to("10.2.0.2", 32))}, plain, "port"},
		{"a port's chain that fails leads to the default, not to chains without a port", chains{"port": match(port(443), protocol("tls")), "any": match()}, plain, "default"},
		{"the longest prefix", chains{"wide": match(to("10.0.0.0", 8)), "narrow": match(to("10.2.0.0", 16))}, plain, "narrow"},
		{"the longest prefix is not left again", chains{"wide": match(to("10.0.0.0", 8)), "narrow": match(to("10.2.0.0", 16), protocol("tls"))}, plain, "default"},
		{"a prefix before a server name", chains{"address": match(to("10.2.0.2", 32)), "name": match(sni("a.b.example.com"))}, tls, "address"},
		{"the exact name", chains{"exact": match(sni("a.b.example.com")), "wild": match(sni("*.b.example.com")), "any": match()}, tls, "exact"},
		{"the closest wildcard", chains{"far": match(sni("*.example.com")), "near": match(sni("*.b.example.com")), "any": match()}, tls, "near"},
		{"a wildcard of more labels", chains{"far": match(sni("*.example.com")), "any": match()}, tls, "far"},
		{"no name", chains{"other": match(sni("b.example.com")), "any": match()}, tls, "any"},
		{"a name is not left again", chains{"exact": match(sni("a.b.example.com"), alpn("x")), "any": match()}, tls, "default"},
		{"the transport", chains{"tls": match(protocol("tls")), "any": match()}, tls, "tls"},
		{"the transport before the application", chains{"tls": match(protocol("tls")), "alpn": match(alpn("h2"))}, tls, "tls"},
		{"the client's first protocol", chains{"one": match(alpn("http/1.1")), "two": match(alpn("h2"))}, tls, "two"},
		{"a protocol of several", chains{"both": match(alpn("x", "http/1.1")), "any": match()}, tls, "both"},
		{"no protocol", chains{"x": match(alpn("x")), "any": match()}, tls, "any"},
		{"the source", chains{"from": match(from("10.1.0.0", 16)), "any": match()}, plain, "from"},
		{"another source", chains{"from": match(from("10.9.0.0", 16)), "any": match()}, plain, "any"},
		{"not local", chains{"local": match(local), "any": match()}, plain, "any"},
		{"the default", chains{"tls": match(protocol("tls"))}, plain, "default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := &listenerv3.Listener{DefaultFilterChain: &listenerv3.FilterChain{Name: "default"}}
			for name, m := range c.chains {
				l.FilterChains = append(l.FilterChains, &listenerv3.FilterChain{Name: name, FilterChainMatch: m})
			}
			if got, _ := chainOf(l, c.seen); got.GetName() != c.want {
				t.Errorf("got %s, want %s", got.GetName(), c.want)
			}
		})
	}
	if c, _ := chainOf(&listenerv3.Listener{FilterChains: []*listenerv3.FilterChain{{FilterChainMatch: match(port(1))}}}, plain); c != nil {
		t.Error("a chain matched though none does and there is no default")
	}
}
