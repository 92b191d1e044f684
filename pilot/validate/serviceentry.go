package validate

import (
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

const (
	seNone       = networking.ServiceEntry_NONE
	seStatic     = networking.ServiceEntry_STATIC
	seDNS        = networking.ServiceEntry_DNS
	seRoundRobin = networking.ServiceEntry_DNS_ROUND_ROBIN
	seDynamic    = networking.ServiceEntry_DYNAMIC_DNS
)

func (c *checker) serviceEntry(s *networking.ServiceEntry) {
	c.entryHosts(s)
	c.entryPorts(s)
	c.entryAddresses(s)
	if s.WorkloadSelector != nil {
		if len(s.Endpoints) > 0 {
			c.fail("spec.endpoints", "excludes workloadSelector")
		}
		if len(s.WorkloadSelector.Labels) == 0 {
			c.warn("spec.workloadSelector", "empty: it selects every workload of the namespace")
		}
		if s.Resolution == seNone {
			c.warn("spec.workloadSelector", "resolution NONE does not use it")
		}
		c.labelMap("spec.workloadSelector.labels", s.WorkloadSelector.Labels)
	}
	c.entryEndpoints(s)
	switch s.Resolution {
	case seDNS, seRoundRobin:
		c.resolvedByDNS(s)
	case seDynamic:
		c.dynamicDNS(s)
	}
	c.entryProtocols(s)
	c.exportTo(s.ExportTo, true)
}

func (c *checker) entryHosts(s *networking.ServiceEntry) {
	if len(s.Hosts) == 0 {
		c.fail("spec.hosts", "missing")
	}
	for i, h := range s.Hosts {
		at := index("spec.hosts", i)
		if h == "*" {
			c.fail(at, "* names no service")
			continue
		}
		c.failIf(at, wildcardDomain(h))
		if partialWildcard(h) {
			c.warn(at, "%q: a wildcard stands for whole labels only; this one matches literally in places", h)
		}
	}
}

func (c *checker) entryPorts(s *networking.ServiceEntry) {
	names, numbers := map[string]bool{}, map[uint32]bool{}
	for i, p := range s.Ports {
		at := index("spec.ports", i)
		if p == nil {
			c.fail(at, "missing")
			continue
		}
		if names[p.Name] {
			c.fail(at+".name", "%q is the name of another port, too", p.Name)
		}
		if numbers[p.Number] {
			c.fail(at+".number", "%d is the number of another port, too", p.Number)
		}
		names[p.Name], numbers[p.Number] = true, true
		c.failIf(at+".number", portNumber(p.Number))
		if !dnsLabel(p.Name) {
			c.fail(at+".name", "%q is not the name of a port", p.Name)
		}
		if p.Protocol != "" && !knownProtocol(p.Protocol) {
			c.fail(at+".protocol", "%q is not a protocol", p.Protocol)
		}
		if p.TargetPort != 0 {
			c.failIf(at+".targetPort", portNumber(p.TargetPort))
		}
	}
}

func (c *checker) entryAddresses(s *networking.ServiceEntry) {
	for i, a := range s.Addresses {
		at := index("spec.addresses", i)
		c.failIf(at, ipOrPrefix(a))
		if prefix, err := netip.ParsePrefix(a); err == nil && !prefix.IsSingleIP() && s.Resolution != seNone && s.Resolution != seStatic {
			c.fail(at, "a block of addresses needs resolution NONE or STATIC")
		}
	}
}

func (c *checker) entryEndpoints(s *networking.ServiceEntry) {
	if s.Resolution == seNone && len(s.Endpoints) > 0 {
		c.fail("spec.endpoints", "resolution NONE has no endpoints")
	}
	for i, e := range s.Endpoints {
		at := index("spec.endpoints", i)
		if e == nil {
			c.fail(at, "missing")
			continue
		}
		switch {
		case isUnixAddress(e.Address):
			c.failIf(at+".address", unixAddress(e.Address))
			if len(e.Ports) > 0 {
				c.fail(at+".ports", "a unix socket has no ports")
			}
		case e.Address == "" && e.Network != "":
		case s.Resolution == seStatic && !isIP(e.Address):
			c.fail(at+".address", "%q is neither an IP address nor a unix socket, as resolution STATIC needs", e.Address)
		case s.Resolution != seStatic && s.Resolution != seNone && !isIP(e.Address):
			c.failIf(at+".address", domainName(e.Address))
		}
		c.labelMap(at+".labels", e.Labels)
		for _, name := range sortedKeys(e.Ports) {
			field := entry(at+".ports", name)
			if !slices.ContainsFunc(s.Ports, func(p *networking.ServicePort) bool { return p.GetName() == name }) {
				c.fail(field, "the entry has no port of this name")
			}
			c.failIf(field, portNumber(e.Ports[name]))
		}
	}
}

func (c *checker) resolvedByDNS(s *networking.ServiceEntry) {
	if len(s.Endpoints) == 0 && s.WorkloadSelector == nil {
		for i, h := range s.Hosts {
			if strings.HasPrefix(h, "*") {
				c.fail(index("spec.hosts", i), "resolution %s needs a full name, or endpoints", s.Resolution)
			}
		}
	}
	if s.Resolution == seRoundRobin && len(s.Endpoints) > 1 {
		c.fail("spec.endpoints", "resolution DNS_ROUND_ROBIN takes one at most")
	}
}

func (c *checker) dynamicDNS(s *networking.ServiceEntry) {
	for i, h := range s.Hosts {
		if !strings.HasPrefix(h, "*") {
			c.fail(index("spec.hosts", i), "resolution DYNAMIC_DNS is for wildcard hosts")
		}
	}
	if len(s.Addresses) > 0 {
		c.fail("spec.addresses", "resolution DYNAMIC_DNS has no addresses")
	}
	if len(s.Endpoints) > 0 {
		c.fail("spec.endpoints", "resolution DYNAMIC_DNS has no endpoints")
	}
	for i, p := range s.Ports {
		switch strings.ToUpper(p.GetProtocol()) {
		case "HTTP", "HTTP2", "GRPC", "TLS":
		default:
			c.fail(index("spec.ports", i)+".protocol", "resolution DYNAMIC_DNS takes HTTP, HTTP2, GRPC and TLS, not %q", p.GetProtocol())
		}
	}
	if s.Location == networking.ServiceEntry_MESH_INTERNAL && c.object.Labels["istio.io/use-waypoint"] != "" {
		c.fail("spec.location", "MESH_INTERNAL and resolution DYNAMIC_DNS cannot use a waypoint")
	}
}

// entryProtocols checks how ports can be told from others on the same number.
func (c *checker) entryProtocols(s *networking.ServiceEntry) {
	for i, p := range s.Ports {
		named := isHTTP(p.GetProtocol()) || isTLS(p.GetProtocol())
		at := index("spec.ports", i) + ".protocol"
		switch {
		case named:
		case len(s.Hosts) > 1 && s.Resolution != seNone && p.GetProtocol() != "":
			c.fail(at, "several hosts can be told apart by HTTP and TLS only, not by %s", p.GetProtocol())
		case len(s.Hosts) > 1 && len(s.Addresses) > 0:
			c.warn(at, "several hosts share the addresses, and can be told apart by HTTP and TLS only")
		case len(s.Addresses) == 0 && !allocatable(s):
			c.warn(at, "without addresses all traffic to port %d is taken", p.GetNumber())
		}
	}
}

// allocatable says whether the entry's hosts can get addresses of their own.
func allocatable(s *networking.ServiceEntry) bool {
	return s.Resolution != seNone && !slices.ContainsFunc(s.Hosts, func(h string) bool { return strings.HasPrefix(h, "*") })
}
