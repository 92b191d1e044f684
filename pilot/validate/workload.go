package validate

import (
	networking "istio.io/api/networking/v1alpha3"
)

// workloadEntry checks an entry of its own, or the template of a group, which needs no address.
func (c *checker) workloadEntry(w *networking.WorkloadEntry, field string, template bool) {
	switch {
	case w.Address == "" && template:
	case w.Address == "" && w.Network == "":
		c.fail(field+".address", "missing; it may be empty with a network only")
	case w.Address == "":
		c.warn(field+".address", "empty: the workload is reached through its network's gateway only")
	case isUnixAddress(w.Address):
		c.failIf(field+".address", unixAddress(w.Address))
		if len(w.Ports) > 0 {
			c.fail(field+".ports", "a unix socket has no ports")
		}
	case !isIP(w.Address):
		c.failIf(field+".address", domainName(w.Address))
	}
	for _, name := range sortedKeys(w.Ports) {
		at := entry(field+".ports", name)
		if !dnsLabel(name) {
			c.fail(at, "%q is not the name of a port", name)
		}
		c.failIf(at, portNumber(w.Ports[name]))
	}
	c.labelMap(field+".labels", w.Labels)
}

func (c *checker) workloadGroup(g *networking.WorkloadGroup) {
	if g.Template == nil {
		c.fail("spec.template", "missing")
	} else {
		c.workloadEntry(g.Template, "spec.template", true)
	}
	c.labelMap("spec.metadata.labels", g.GetMetadata().GetLabels())
	if g.Probe != nil {
		c.probe("spec.probe", g.Probe)
	}
}

func (c *checker) probe(field string, p *networking.ReadinessProbe) {
	for _, n := range []struct {
		name  string
		value int32
	}{
		{"initialDelaySeconds", p.InitialDelaySeconds},
		{"timeoutSeconds", p.TimeoutSeconds},
		{"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold},
		{"failureThreshold", p.FailureThreshold},
	} {
		c.notNegative(field+"."+n.name, n.value)
	}
	switch m := p.HealthCheckMethod.(type) {
	case *networking.ReadinessProbe_HttpGet:
		c.failIf(field+".httpGet.port", portNumber(m.HttpGet.GetPort()))
		if s := m.HttpGet.GetScheme(); s != "" && s != "HTTP" && s != "HTTPS" {
			c.fail(field+".httpGet.scheme", "%q is neither HTTP nor HTTPS", s)
		}
		for i, h := range m.HttpGet.GetHttpHeaders() {
			if !headerName(h.GetName()) {
				c.fail(index(field+".httpGet.httpHeaders", i)+".name", "%q is not the name of a header", h.GetName())
			}
		}
	case *networking.ReadinessProbe_TcpSocket:
		c.failIf(field+".tcpSocket.port", portNumber(m.TcpSocket.GetPort()))
	case *networking.ReadinessProbe_Exec:
		if len(m.Exec.GetCommand()) == 0 {
			c.fail(field+".exec.command", "missing")
		}
	case *networking.ReadinessProbe_Grpc:
		c.failIf(field+".grpc.port", portNumber(m.Grpc.GetPort()))
	default:
		c.fail(field, "httpGet, tcpSocket, exec or grpc is needed")
	}
}
