package listener

import (
	"net/netip"
	"slices"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	filterstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/set_filter_state/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	setstatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/set_filter_state/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/policy"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/tls"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// tunnelUnit is a listener of the HBONE tunnel, by its name (translation-l4 §5.9).
type tunnelUnit string

const (
	// connectOriginate puts connections into a tunnel.
	connectOriginate tunnelUnit = traffic.ConnectOriginate
	// connectTerminate takes tunnels, and mainInternal the connections that come out of them.
	connectTerminate tunnelUnit = "connect_terminate"
	mainInternal     tunnelUnit = traffic.MainInternal

	tunnelPort        = 15008
	tunnelStreams     = 100
	tunnelPing        = 10 * time.Second
	tunnelPingTimeout = 20 * time.Second
	upgradeConnect    = "CONNECT"
)

func tunnelUnits(c *view.Context) []any {
	var out []any
	if c.HasTunnels() {
		out = append(out, connectOriginate)
	}
	if c.ListensHBONE() && c.HasCertificate() {
		out = append(out, connectTerminate, mainInternal)
	}
	return out
}

func buildTunnel(c *view.Context, u tunnelUnit) []*translate.Message {
	var l *listenerv3.Listener
	switch u {
	case connectOriginate:
		l = originate(filter.New(c))
	case connectTerminate:
		l = terminate(c, filter.New(c))
	case mainInternal:
		l = internal(c)
	}
	return []*translate.Message{{Name: l.GetName(), Proto: l}}
}

// originate returns the listener that the tunnelled endpoints of a cluster lead to.
func originate(f *filter.Set) *listenerv3.Listener {
	l := internalListener(connectOriginate, f)
	l.UseOriginalDst = wrapperspb.Bool(false)
	l.FilterChains = []*listenerv3.FilterChain{{Filters: []*listenerv3.Filter{f.NetworkFilter("envoy.filters.network.tcp_proxy", &tcpv3.TcpProxy{
		StatPrefix:       string(connectOriginate),
		ClusterSpecifier: &tcpv3.TcpProxy_Cluster{Cluster: string(connectOriginate)},
		AccessLog:        f.OriginateLog(),
		TunnelingConfig:  &tcpv3.TcpProxy_TunnelingConfig{Hostname: "%DOWNSTREAM_LOCAL_ADDRESS%"},
	})}}}
	return l
}

func internalListener(name tunnelUnit, f *filter.Set) *listenerv3.Listener {
	return &listenerv3.Listener{
		Name:              string(name),
		ListenerSpecifier: &listenerv3.Listener_InternalListener{InternalListener: &listenerv3.Listener_InternalListenerConfig{}},
		ListenerFilters:   []*listenerv3.ListenerFilter{originalDst(f)},
	}
}

// internal returns the listener for what comes out of tunnels: as in the one for redirected connections, but the tunnel
// has seen to mutual TLS already.
func internal(c *view.Context) *listenerv3.Listener {
	b := newInboundBuilder(c)
	b.policy = b.policy.WithinTunnel()
	b.http, b.tcp, b.tunnel = b.policy.HTTP(), b.policy.TCP(), true
	ports := inboundPorts(c)
	l := internalListener(mainInternal, b.filters)
	l.TrafficDirection = corev3.TrafficDirection_INBOUND
	l.ContinueOnListenerFiltersTimeout = true
	need := inspections{}
	for _, p := range append(slices.Clone(ports), b.passthrough(nil)[0]) {
		if !p.bound {
			l.FilterChains = append(l.FilterChains, b.chains(p, need)...)
		}
	}
	own := ownAddresses(c)
	for _, f := range l.GetFilterChains() {
		f.GetFilterChainMatch().TransportProtocol = ""
		f.GetFilterChainMatch().PrefixRanges = own
	}
	l.ListenerFilters = append(l.ListenerFilters, need.filters(b.filters)...)
	return l
}

func ownAddresses(c *view.Context) []*corev3.CidrRange {
	var out []*corev3.CidrRange
	for _, text := range c.IPs() {
		if a, err := netip.ParseAddr(text); err == nil {
			out = append(out, &corev3.CidrRange{AddressPrefix: text, PrefixLen: wrapperspb.UInt32(uint32(a.BitLen()))})
		}
	}
	return out
}

// terminate returns the listener that takes tunnels.
func terminate(c *view.Context, f *filter.Set) *listenerv3.Listener {
	l := &listenerv3.Listener{Name: string(connectTerminate), ConnectionBalanceConfig: exactBalance()}
	setAddresses(l, wildcards(c.Family()), tunnelPort)
	route := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: string(mainInternal)},
		UpgradeConfigs: []*routev3.RouteAction_UpgradeConfig{{
			UpgradeType: upgradeConnect, ConnectConfig: &routev3.RouteAction_UpgradeConfig_ConnectConfig{},
		}},
	}
	hcm := &hcmv3.HttpConnectionManager{
		StatPrefix:        string(connectTerminate),
		UseRemoteAddress:  wrapperspb.Bool(false),
		StreamIdleTimeout: durationpb.New(0),
		UpgradeConfigs:    []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: upgradeConnect}},
		HttpFilters:       terminateFilters(f),
		AccessLog:         f.TerminateLog(),
		RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: &routev3.RouteConfiguration{
			Name: "default",
			VirtualHosts: []*routev3.VirtualHost{{Name: "default", Domains: []string{"*"}, Routes: []*routev3.Route{{
				Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_ConnectMatcher_{ConnectMatcher: &routev3.RouteMatch_ConnectMatcher{}}},
				Action: &routev3.Route_Route{Route: route},
			}}}},
		}},
		Http2ProtocolOptions: &corev3.Http2ProtocolOptions{
			AllowConnect: true, MaxConcurrentStreams: wrapperspb.UInt32(tunnelStreams),
			ConnectionKeepalive: &corev3.KeepaliveSettings{Interval: durationpb.New(tunnelPing), Timeout: durationpb.New(tunnelPingTimeout)},
		},
	}
	f.InboundHeaders(hcm)
	l.FilterChains = []*listenerv3.FilterChain{{
		Name:    "default",
		Filters: []*listenerv3.Filter{f.NetworkFilter("envoy.filters.network.http_connection_manager", hcm)},
		TransportSocket: &corev3.TransportSocket{
			Name:       "tls",
			ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: f.Pack(tls.TunnelDownstream(c))},
		},
	}}
	return l
}

// terminateFilters remember where a tunnelled connection goes and whose it is.
func terminateFilters(f *filter.Set) []*hcmv3.HttpFilter {
	hashable := "istio.hashable_string"
	if f.Stock() {
		hashable = "envoy.string"
	}
	value := func(key, factory, format string) *filterstatev3.FilterStateValue {
		v := &filterstatev3.FilterStateValue{
			Key:                &filterstatev3.FilterStateValue_ObjectKey{ObjectKey: key},
			FactoryKey:         factory,
			SharedWithUpstream: filterstatev3.FilterStateValue_ONCE,
		}
		v.Value = &filterstatev3.FilterStateValue_FormatString{FormatString: &corev3.SubstitutionFormatString{
			Format: &corev3.SubstitutionFormatString_TextFormatSource{TextFormatSource: &corev3.DataSource{
				Specifier: &corev3.DataSource_InlineString{InlineString: format},
			}},
		}}
		return v
	}
	state := &setstatev3.Config{OnRequestHeaders: []*filterstatev3.FilterStateValue{
		value("envoy.filters.listener.original_dst.local_ip", "", "%REQ(:AUTHORITY)%"),
		value("io.istio.connect_authority", hashable, "%REQ(:AUTHORITY)%"),
		value("envoy.filters.listener.original_dst.remote_ip", "", "%DOWNSTREAM_REMOTE_ADDRESS%"),
		value(policy.PeerPrincipalState, hashable, "%DOWNSTREAM_PEER_URI_SAN%"),
		value("io.istio.local_principal", hashable, "%DOWNSTREAM_LOCAL_URI_SAN%"),
	}}
	var out []*hcmv3.HttpFilter
	if !f.Stock() {
		out = append(out, f.HTTPFilter("waypoint_downstream_peer_metadata", f.TunnelPeerMetadata()))
	}
	return append(out, f.HTTPFilter("connect_authority", state), f.HTTPFilter("envoy.filters.http.router", &routerv3.Router{}))
}
