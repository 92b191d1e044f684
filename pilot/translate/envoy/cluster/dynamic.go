package cluster

import (
	"fmt"
	"net"
	"strconv"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	forwardv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/tls"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

const (
	dynamicCache    = "allow_any_dfp_dns_cache"
	dynamicMaxHosts = 1024
	agentDNS        = "127.0.0.1:15053"
)

// CacheName returns the name of the DNS cache that a wildcard host's cluster shares with the listeners' filters.
func CacheName(host string) string { return host + "_dfp_dns_cache" }

// forwardProxy makes the cluster that resolves a wildcard host's names when they are asked for. It has no subsets.
func (j *job) forwardProxy(t *target) []*translate.Message {
	switch t.port.Protocol {
	case model.HTTP, model.HTTP2, model.GRPC, model.TLS:
	default:
		return nil
	}
	if !model.IsWildcard(t.service.Host) {
		return nil
	}
	name := t.name.String()
	cl := j.bare(name, traffic.StatName(j.mesh.Config.GetOutboundClusterStatName(), name, t.service, t.port, "", 0))
	o := j.protocol(t.port.Protocol, t.policy.Pool, true)
	j.pool(cl, &o, &t.policy)
	cl.OutlierDetection = outlier(t.policy.Outlier)
	cl.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	s := j.security(t)
	config := &forwardv3.ClusterConfig{ClusterImplementationSpecifier: cacheSpec(&cachev3.DnsCacheConfig{
		Name: CacheName(t.service.Host), DnsLookupFamily: j.lookupFamily(t.service),
	})}
	if s.client != nil {
		given := t.policy.TLS.GetSni() != ""
		if !given {
			s.client.SNI = ""
		}
		autoNames(s.client, t, &o)
		config.AllowInsecureClusterOptions = given || s.client.InsecureSkipVerify || !o.upstream.GetAutoSanValidation()
		s.auto = false
	} else {
		// Without TLS there is no name to check, but Envoy asks for the check wherever there are options.
		config.AllowInsecureClusterOptions = o.kind != unsaid || !o.plain()
	}
	j.forwardType(cl, config)
	j.sockets(cl, t, s)
	j.setOptions(cl, &o)
	f := fields{}
	f.rule(t.rule)
	if t.service.MeshExternal {
		f.flag("external")
	}
	if overridesALPN(&t.policy) {
		f.text("alpn_override", "false")
	}
	cl.Metadata, cl.Filters = f.message(), j.exchangeFilters()
	return []*translate.Message{{Name: name, Proto: cl}}
}

func cacheSpec(c *cachev3.DnsCacheConfig) *forwardv3.ClusterConfig_DnsCacheConfig {
	return &forwardv3.ClusterConfig_DnsCacheConfig{DnsCacheConfig: c}
}

func (j *job) forwardType(cl *clusterv3.Cluster, config *forwardv3.ClusterConfig) {
	cl.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: nameForwardProxy, TypedConfig: j.pack(config),
	}}
}

// dynamicDNSPolicy returns the mesh's outbound policy if it lets proxies resolve any name at request time.
func dynamicDNSPolicy(m *model.Mesh) *meshconfig.MeshConfig_OutboundTrafficPolicy {
	p := m.Config.GetOutboundTrafficPolicy()
	if p.GetMode() == meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY_DYNAMIC_DNS {
		return p
	}
	return nil
}

// dynamicDNS makes the cluster for all names that no service has.
func (j *job) dynamicDNS() *clusterv3.Cluster {
	cl := j.bare(traffic.DynamicDNS, traffic.DynamicDNS)
	cl.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	cache := &cachev3.DnsCacheConfig{
		Name: dynamicCache, DnsLookupFamily: j.lookupFamily(&model.Service{}), MaxHosts: uint32Value(uint32(dynamicMaxHosts)),
	}
	if n, err := strconv.ParseUint(j.set.Raw["PILOT_ALLOW_ANY_DYNAMIC_DNS_MAX_HOSTS"], 10, 32); err == nil && n > 0 {
		cache.MaxHosts = uint32Value(n)
	}
	if j.c.DNSCapture() {
		cache.TypedDnsResolverConfig = j.agentResolver()
	}
	o := httpOptions{kind: asDownstream}
	j.pool(cl, &o, &traffic.Policy{Pool: j.mesh.Config.GetDefaultTrafficPolicy().GetConnectionPool()})
	config := &forwardv3.ClusterConfig{ClusterImplementationSpecifier: cacheSpec(cache), AllowInsecureClusterOptions: true}
	settings := dynamicDNSPolicy(j.mesh).GetTls()
	mode := settings.GetMode()
	if mode == networking.ClientTLSSettings_SIMPLE || mode == networking.ClientTLSSettings_MUTUAL {
		t := &target{service: &model.Service{}, port: &model.Port{}, rule: &model.DestinationRule{Selector: map[string]string{}}}
		if client := j.userClient(t, settings); client != nil {
			autoNames(client, t, &o)
			config.AllowInsecureClusterOptions = !o.upstream.GetAutoSanValidation()
			j.plainTLS(cl, client)
		}
	}
	j.forwardType(cl, config)
	j.setOptions(cl, &o)
	cl.Filters = j.exchangeFilters()
	return cl
}

func (j *job) plainTLS(cl *clusterv3.Cluster, client *tls.Client) {
	context, err := j.tls.Context(j.c, client)
	if err != nil {
		j.err = fmt.Errorf("TLS: %w", err)
		return
	}
	cl.TransportSocket = j.socket(nameTLS, context)
}

// agentResolver asks the DNS server of the proxy's own agent.
func (j *job) agentResolver() *corev3.TypedExtensionConfig {
	host, port, err := net.SplitHostPort(j.c.Meta("DNS_PROXY_ADDR"))
	if err != nil {
		host, port, _ = net.SplitHostPort(agentDNS)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || net.ParseIP(host) == nil {
		host, n = "127.0.0.1", 15053
	}
	return &corev3.TypedExtensionConfig{Name: nameCares, TypedConfig: j.pack(&caresv3.CaresDnsResolverConfig{
		Resolvers: []*corev3.Address{socketAddress(host, uint32(n))},
	})}
}

func socketAddress(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
