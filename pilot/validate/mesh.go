package validate

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	mesh "istio.io/api/mesh/v1alpha1"
)

// MeshConfig returns what is wrong with a mesh configuration. Fields start at its root: "defaultConfig.drainDuration".
// Extension providers are no concern here: a broken one costs only those who refer to it.
func MeshConfig(m *mesh.MeshConfig) []Issue {
	c := &checker{}
	for _, p := range []struct {
		field string
		port  int32
		off   bool // 0 means that there is none
	}{
		{"proxyListenPort", m.GetProxyListenPort(), false},
		{"proxyInboundListenPort", m.GetProxyInboundListenPort(), false},
		{"proxyHttpPort", m.GetProxyHttpPort(), true},
	} {
		if p.port != 0 || !p.off {
			c.failIf(p.field, portNumber(p.port))
		}
	}
	if t := m.GetConnectTimeout(); t != nil {
		if d := t.AsDuration(); d < time.Millisecond || d > time.Hour {
			c.fail("connectTimeout", "%v is not between 1ms and 1h", d)
		}
	}
	if d := m.GetProtocolDetectionTimeout().AsDuration(); d < 0 {
		c.fail("protocolDetectionTimeout", "%v is negative", d)
	}
	c.trustDomain("trustDomain", m.GetTrustDomain())
	for i, d := range m.GetTrustDomainAliases() {
		c.trustDomain(index("trustDomainAliases", i), d)
	}
	if !dnsLabel(m.GetRootNamespace()) {
		c.fail("rootNamespace", "%q is not the name of a namespace", m.GetRootNamespace())
	}
	c.proxyDefaults(m.GetDefaultConfig())
	c.locality("localityLbSetting", m.GetLocalityLbSetting())
	c.retries("defaultHttpRetryPolicy", m.GetDefaultHttpRetryPolicy())
	c.retries("defaultInboundHttpRetryPolicy", m.GetDefaultInboundHttpRetryPolicy())
	c.defaultTrafficPolicy(m.GetDefaultTrafficPolicy())
	c.meshTLS("meshMTLS", m.GetMeshMTLS())
	c.meshTLS("tlsDefaults", m.GetTlsDefaults())
	return c.issues
}

func (c *checker) trustDomain(field, domain string) {
	// Longer than a DNS name's labels allow, trust domains of other systems are still legal in SPIFFE.
	if domain == "" {
		c.fail(field, "must not be empty")
		return
	}
	for i := range len(domain) {
		if !isAlphanumeric(domain[i]) && !strings.ContainsRune("-._", rune(domain[i])) {
			c.fail(field, "%q is not a trust domain", domain)
			return
		}
	}
}

func (c *checker) proxyDefaults(p *mesh.ProxyConfig) {
	const field = "defaultConfig"
	if p == nil {
		return
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"drainDuration", p.GetDrainDuration().AsDuration()},
		{"terminationDrainDuration", p.GetTerminationDrainDuration().AsDuration()},
	} {
		if d.value < 0 || d.value%time.Second != 0 {
			c.fail(field+"."+d.name, "%v is not a number of seconds", d.value)
		}
	}
	c.hostPort(field+".discoveryAddress", p.GetDiscoveryAddress(), true)
	c.hostPort(field+".statsdUdpAddress", p.GetStatsdUdpAddress(), false)
	if n := p.GetConcurrency(); n.GetValue() < 0 {
		c.fail(field+".concurrency", "%d is negative", n.GetValue())
	}
	for name, port := range map[string]int32{"proxyAdminPort": p.GetProxyAdminPort(), "statusPort": p.GetStatusPort()} {
		if port < 0 || port > 65535 {
			c.fail(field+"."+name, "%d is not a port", port)
		}
	}
	if _, ok := p.GetProxyMetadata()["ISTIO_META_DNS_AUTO_ALLOCATE"]; ok {
		c.warn(field+".proxyMetadata[ISTIO_META_DNS_AUTO_ALLOCATE]", "addresses are allocated without it")
	}
}

func (c *checker) hostPort(field, address string, needed bool) {
	if address == "" {
		if needed {
			c.fail(field, "must not be empty")
		}
		return
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		c.fail(field, "%q is not host:port", address)
		return
	}
	n, err := strconv.Atoi(port)
	if err != nil || portNumber(n) != nil || host == "" || !isIP(host) && domainName(host) != nil {
		c.fail(field, "%q is not host:port", address)
	}
}

func (c *checker) defaultTrafficPolicy(p *mesh.MeshConfig_DefaultTrafficPolicy) {
	if p == nil {
		return
	}
	c.connectionPool("defaultTrafficPolicy.connectionPool", p.GetConnectionPool())
	c.outlierDetection("defaultTrafficPolicy.outlierDetection", p.GetOutlierDetection())
}

// The curves that Envoy's TLS library has names for.
func curves() []string { return []string{"P-256", "P-384", "P-521", "X25519", "X25519MLKEM768"} }

func (c *checker) meshTLS(field string, t *mesh.MeshConfig_TLSConfig) {
	seen := map[string]bool{}
	for i, curve := range t.GetEcdhCurves() {
		at := index(field+".ecdhCurves", i)
		if seen[curve] {
			c.fail(at, "%s is listed twice", curve)
		}
		seen[curve] = true
		if !slices.Contains(curves(), curve) {
			c.warn(at, "%q is not a curve that proxies know", curve)
		}
	}
}

// MeshNetworks returns what is wrong with the networks of a mesh. Fields start at its root.
func MeshNetworks(m *mesh.MeshNetworks) []Issue {
	c := &checker{}
	for _, name := range sortedKeys(m.GetNetworks()) {
		field := entry("networks", name)
		for i, e := range m.GetNetworks()[name].GetEndpoints() {
			at := index(field+".endpoints", i)
			switch ne := e.GetNe().(type) {
			case *mesh.Network_NetworkEndpoints_FromCidr:
				if !isPrefix(ne.FromCidr) {
					c.fail(at+".fromCidr", "%q is not a CIDR block", ne.FromCidr)
				}
			case *mesh.Network_NetworkEndpoints_FromRegistry:
				if ne.FromRegistry == "" {
					c.fail(at+".fromRegistry", "must not be empty")
				}
			default:
				c.fail(at, "fromCidr or fromRegistry is needed")
			}
		}
		for i, g := range m.GetNetworks()[name].GetGateways() {
			c.networkGateway(index(field+".gateways", i), g)
		}
	}
	return c.issues
}

func (c *checker) networkGateway(field string, g *mesh.Network_IstioNetworkGateway) {
	switch gw := g.GetGw().(type) {
	case *mesh.Network_IstioNetworkGateway_Address:
		if !isIP(gw.Address) {
			c.failIf(field+".address", domainName(gw.Address))
		}
	case *mesh.Network_IstioNetworkGateway_RegistryServiceName:
		c.failIf(field+".registryServiceName", domainName(gw.RegistryServiceName))
	default:
		c.fail(field, "address or registryServiceName is needed")
	}
	c.failIf(field+".port", portNumber(g.GetPort()))
}
