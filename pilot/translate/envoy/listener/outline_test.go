package listener

import (
	"fmt"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// outline tells what a listener does in a few lines: addresses, inspectors, and for each chain what it matches and where
// it leads.
func outline(t testing.TB, m proto.Message) string {
	t.Helper()
	l, ok := m.(*listenerv3.Listener)
	if !ok {
		t.Fatalf("a %T is no listener", m)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s at %s", l.Name, address(l.Address))
	for _, a := range l.AdditionalAddresses {
		fmt.Fprintf(&b, ", %s", address(a.Address))
	}
	if l.BindToPort != nil && !l.BindToPort.Value {
		b.WriteString(" (not bound)")
	}
	for _, f := range l.ListenerFilters {
		fmt.Fprintf(&b, " %s", strings.TrimPrefix(f.Name, "envoy.filters.listener."))
	}
	b.WriteByte('\n')
	for _, c := range l.FilterChains {
		fmt.Fprintf(&b, "  %s\n", chainOutline(t, c))
	}
	if l.DefaultFilterChain != nil {
		fmt.Fprintf(&b, "  else %s\n", chainOutline(t, l.DefaultFilterChain))
	}
	return b.String()
}

func address(a *corev3.Address) string {
	if p := a.GetPipe(); p != nil {
		return p.Path
	}
	return fmt.Sprintf("%s:%d", a.GetSocketAddress().GetAddress(), a.GetSocketAddress().GetPortValue())
}

func chainOutline(t testing.TB, c *listenerv3.FilterChain) string {
	var words []string
	if c.Name != "" {
		words = append(words, c.Name)
	}
	m := c.GetFilterChainMatch()
	if p := m.GetDestinationPort(); p != nil {
		words = append(words, fmt.Sprint("port=", p.Value))
	}
	if m.GetTransportProtocol() != "" {
		words = append(words, m.GetTransportProtocol())
	}
	for name, list := range map[string][]string{"alpn": m.GetApplicationProtocols()} {
		if len(list) > 0 {
			words = append(words, name+"="+strings.Join(list, ","))
		}
	}
	if len(m.GetServerNames()) > 0 {
		words = append(words, "sni="+strings.Join(m.GetServerNames(), ","))
	}
	for _, r := range m.GetPrefixRanges() {
		words = append(words, fmt.Sprintf("%s/%d", r.AddressPrefix, r.PrefixLen.GetValue()))
	}
	if c.TransportSocket != nil {
		x := &tlsv3.DownstreamTlsContext{}
		unpack(t, c.TransportSocket.GetTypedConfig(), x)
		words = append(words, "tls("+strings.Join(x.CommonTlsContext.AlpnProtocols, ",")+")")
	}
	words = append(words, "->")
	for _, f := range c.Filters {
		words = append(words, filterOutline(t, f))
	}
	return strings.Join(words, " ")
}

func filterOutline(t testing.TB, f *listenerv3.Filter) string {
	switch short := strings.TrimPrefix(f.Name, "envoy.filters.network."); short {
	case "http_connection_manager":
		h := &hcmv3.HttpConnectionManager{}
		unpack(t, f.GetTypedConfig(), h)
		route := h.GetRds().GetRouteConfigName()
		if r := h.GetRouteConfig(); r != nil {
			route = "inline " + r.Name + " " + r.VirtualHosts[0].Routes[0].GetDecorator().GetOperation()
		}
		var filters []string
		for _, x := range h.HttpFilters {
			filters = append(filters, strings.TrimPrefix(x.Name, "envoy.filters.http."))
		}
		return fmt.Sprintf("http{%s %q [%s]}", h.StatPrefix, route, strings.Join(filters, " "))
	case "tcp_proxy":
		p := &tcpv3.TcpProxy{}
		unpack(t, f.GetTypedConfig(), p)
		to := p.GetCluster()
		for _, c := range p.GetWeightedClusters().GetClusters() {
			to += fmt.Sprintf("%d*%s ", c.Weight, c.Name)
		}
		if p.StatPrefix != to {
			to = p.StatPrefix + " " + to
		}
		if p.IdleTimeout != nil {
			to += " idle=" + p.IdleTimeout.AsDuration().String()
		}
		return "tcp{" + strings.TrimSpace(to) + "}"
	default:
		return short
	}
}

func unpack(t testing.TB, a *anypb.Any, into proto.Message) {
	t.Helper()
	if err := a.UnmarshalTo(into); err != nil {
		t.Fatal(err)
	}
}
