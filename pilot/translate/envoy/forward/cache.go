// Package forward describes the DNS caches that clusters and filters share which resolve names at request time. Envoy
// wants all who name a cache to describe it in the same way.
package forward

import (
	"net"
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

const (
	anyCache = "allow_any_dfp_dns_cache"
	maxHosts = 1024
	// agentDNS is where the agent of a proxy answers DNS unless the proxy says otherwise.
	agentDNS  = "127.0.0.1:15053"
	nameCares = "envoy.network.dns_resolver.cares"
)

// Serves tells whether the names of a service's port are resolved at request time: those of a wildcard host, where the
// protocol tells which of them is asked for (translation-l4 §2.10).
func Serves(s *model.Service, p model.Protocol) bool {
	if s == nil || s.Resolution != model.DynamicDNS || !model.IsWildcard(s.Host) {
		return false
	}
	switch p {
	case model.HTTP, model.HTTP2, model.GRPC, model.TLS:
		return true
	}
	return false
}

// ServiceCache is the cache of a service with a wildcard host.
func ServiceCache(c *view.Context, s *model.Service) *cachev3.DnsCacheConfig {
	return &cachev3.DnsCacheConfig{Name: s.Host + "_dfp_dns_cache", DnsLookupFamily: LookupFamily(c, s)}
}

// AnyPolicy returns the mesh's outbound policy if it lets proxies resolve names that no service has, else nil.
func AnyPolicy(c *view.Context) *meshconfig.MeshConfig_OutboundTrafficPolicy {
	p := c.Mesh().Config.GetOutboundTrafficPolicy()
	if p.GetMode() != meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS || c.Type() != view.Sidecar {
		return nil
	}
	return p
}

// AnyCache is the cache for names that no service has.
func AnyCache(c *view.Context) *cachev3.DnsCacheConfig {
	out := &cachev3.DnsCacheConfig{
		Name: anyCache, DnsLookupFamily: LookupFamily(c, &model.Service{}), MaxHosts: wrapperspb.UInt32(maxHosts),
	}
	if n, err := strconv.ParseUint(c.Settings().Raw["PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS"], 10, 32); err == nil && n > 0 {
		out.MaxHosts = wrapperspb.UInt32(uint32(n))
	}
	if c.DNSCapture() {
		out.TypedDnsResolverConfig = agentResolver(c)
	}
	return out
}

// LookupFamily returns which addresses of a service's names are of use to the proxy.
func LookupFamily(c *view.Context, s *model.Service) clusterv3.Cluster_DnsLookupFamily {
	if s.ConnectStrategyRace {
		return clusterv3.Cluster_ALL
	}
	switch c.Family() {
	case view.IPv6:
		if c.Settings().Raw["ISTIO_ENABLE_IPV4_OUTBOUND_LISTENER_FOR_IPV6_CLUSTERS"] == "true" {
			return clusterv3.Cluster_ALL
		}
		return clusterv3.Cluster_V6_ONLY
	case view.DualStack:
		if c.Settings().DualStack {
			return clusterv3.Cluster_ALL
		}
	}
	return clusterv3.Cluster_V4_ONLY
}

// agentResolver asks the DNS server of the proxy's own agent.
func agentResolver(c *view.Context) *corev3.TypedExtensionConfig {
	host, port, err := net.SplitHostPort(c.Meta("DNS_PROXY_ADDR"))
	if err != nil {
		host, port, _ = net.SplitHostPort(agentDNS)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || net.ParseIP(host) == nil {
		host, n = "127.0.0.1", 15053
	}
	return &corev3.TypedExtensionConfig{
		Name: nameCares, TypedConfig: translate.Pack(&caresv3.CaresDnsResolverConfig{Resolvers: []*corev3.Address{translate.SocketAddress(host, uint32(n))}}),
	}
}
