package patch

import (
	"slices"
	"strconv"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	networking "istio.io/api/networking/v1alpha3"
)

const (
	virtualInbound  = "virtualInbound"
	virtualOutbound = "virtualOutbound"
)

// clusterName is what an Istio cluster name, "direction|port|subset|host", says.
type clusterName struct {
	inbound      bool
	port         uint32
	subset, host string
}

func parseClusterName(name string) clusterName {
	parts := strings.SplitN(name, "|", 4)
	if len(parts) != 4 {
		return clusterName{}
	}
	port, err := strconv.ParseUint(parts[1], 10, 32)
	if err != nil {
		port = 0
	}
	return clusterName{inbound: parts[0] == "inbound", port: uint32(port), subset: parts[2], host: parts[3]}
}

// matchesCluster tells whether a patch is for the cluster. hosts returns the hosts that an inbound cluster serves.
func (p *patch) matchesCluster(name string, hosts func(port uint32) []string) bool {
	m := p.match.GetCluster()
	if m.GetName() != "" {
		return m.GetName() == name
	}
	n := parseClusterName(name)
	if m.GetPortNumber() != 0 && m.GetPortNumber() != n.port || m.GetSubset() != "" && m.GetSubset() != n.subset {
		return false
	}
	switch {
	case m.GetService() == "":
		return true
	case n.inbound:
		return slices.Contains(hosts(n.port), m.GetService())
	}
	return m.GetService() == n.host
}

// ofChains tells whether the patch is about what is in filter chains, or about the chains.
func (p *patch) ofChains() bool {
	switch p.applyTo {
	case networking.EnvoyFilter_FILTER_CHAIN, networking.EnvoyFilter_NETWORK_FILTER, networking.EnvoyFilter_HTTP_FILTER:
		return true
	default:
		return false
	}
}

func isVirtual(l *listenerv3.Listener) bool {
	return l.GetName() == virtualInbound || l.GetName() == virtualOutbound
}

// matchesListener tells whether a patch is for the listener or something in it. Chains of virtual listeners stand for
// ports of their own.
func (p *patch) matchesListener(l *listenerv3.Listener) bool {
	m := p.match.GetListener()
	if m.GetName() != "" && m.GetName() != l.GetName() {
		return false
	}
	if m.GetPortNumber() == 0 || p.ofChains() && isVirtual(l) {
		return true
	}
	return l.GetAddress().GetSocketAddress().GetPortValue() == m.GetPortNumber()
}

// matchesChain tells whether a patch for a listener is for one of its chains.
func (p *patch) matchesChain(l *listenerv3.Listener, c *listenerv3.FilterChain) bool {
	m, has := p.match.GetListener(), c.GetFilterChainMatch()
	port := has.GetDestinationPort().GetValue()
	if m.GetPortNumber() != 0 && isVirtual(l) && port != m.GetPortNumber() {
		return false
	}
	want := m.GetFilterChain()
	switch {
	case want.GetName() != "" && want.GetName() != c.GetName(),
		want.GetSni() != "" && !slices.Contains(has.GetServerNames(), want.GetSni()),
		want.GetTransportProtocol() != "" && want.GetTransportProtocol() != has.GetTransportProtocol(),
		want.GetDestinationPort() != 0 && want.GetDestinationPort() != port,
		want.GetTransportSocket() != "" && want.GetTransportSocket() != c.GetTransportSocket().GetName():
		return false
	}
	if want.GetApplicationProtocols() == "" {
		return true
	}
	for proto := range strings.SplitSeq(want.GetApplicationProtocols(), ",") {
		if !slices.Contains(has.GetApplicationProtocols(), strings.TrimSpace(proto)) {
			return false
		}
	}
	return true
}

// Names of the filters that a patch is about, "" for any.
func (p *patch) listenerFilter() string { return p.match.GetListener().GetListenerFilter() }

func (p *patch) networkFilter() string {
	return p.match.GetListener().GetFilterChain().GetFilter().GetName()
}

func (p *patch) httpFilter() string {
	return p.match.GetListener().GetFilterChain().GetFilter().GetSubFilter().GetName()
}

// sameFilter tells whether the name in a match is a filter's, in its present form or the one of API version 2.
func sameFilter(match, name string) bool { return match == name || presentName(match) == name }

// presentName returns the present form of a filter's name.
func presentName(name string) string {
	switch name {
	case "envoy.http_connection_manager", "envoy.tcp_proxy", "envoy.redis_proxy", "envoy.mongo_proxy", "envoy.ratelimit",
		"envoy.client_ssl_auth", "envoy.echo", "envoy.filters.network.dubbo_proxy":
		return "envoy.filters.network." + strings.TrimPrefix(strings.TrimPrefix(name, "envoy."), "filters.network.")
	case "envoy.router", "envoy.cors", "envoy.fault", "envoy.buffer", "envoy.lua", "envoy.gzip", "envoy.health_check",
		"envoy.grpc_http1_bridge", "envoy.grpc_json_transcoder", "envoy.grpc_web", "envoy.squash", "envoy.ext_authz",
		"envoy.rate_limit":
		short := strings.TrimPrefix(name, "envoy.")
		if short == "rate_limit" {
			short = "ratelimit"
		}
		return "envoy.filters.http." + short
	case "envoy.listener.tls_inspector", "envoy.listener.http_inspector", "envoy.listener.original_dst",
		"envoy.listener.original_src", "envoy.listener.proxy_protocol":
		return "envoy.filters.listener." + strings.TrimPrefix(name, "envoy.listener.")
	}
	return name
}

// matchesConfiguration tells whether a patch is for a sidecar's route configuration. Its port is what its name says: the
// port, or an inbound cluster's name.
func (p *patch) matchesConfiguration(name string) bool {
	m := p.match.GetRouteConfiguration()
	if m.GetName() != "" && m.GetName() != name {
		return false
	}
	if m.GetPortNumber() == 0 {
		return true
	}
	if n := parseClusterName(name); n.inbound {
		return n.port == m.GetPortNumber()
	}
	port, err := strconv.ParseUint(name, 10, 32)
	return err == nil && uint32(port) == m.GetPortNumber()
}

func (p *patch) matchesHost(h *routev3.VirtualHost) bool {
	m := p.match.GetRouteConfiguration().GetVhost()
	return (m.GetName() == "" || m.GetName() == h.GetName()) &&
		(m.GetDomainName() == "" || slices.Contains(h.GetDomains(), m.GetDomainName()))
}

// routeMatch is what a patch says about the route it is for, nil if nothing.
func (p *patch) routeMatch() *networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch {
	return p.match.GetRouteConfiguration().GetVhost().GetRoute()
}

func (p *patch) matchesRoute(r *routev3.Route) bool {
	m := p.routeMatch()
	if m.GetName() != "" && m.GetName() != r.GetName() {
		return false
	}
	switch m.GetAction() {
	case networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_ROUTE:
		return r.GetRoute() != nil
	case networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_REDIRECT:
		return r.GetRedirect() != nil
	case networking.EnvoyFilter_RouteConfigurationMatch_RouteMatch_DIRECT_RESPONSE:
		return r.GetDirectResponse() != nil
	default:
		return true
	}
}
