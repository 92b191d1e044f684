package validate

import (
	"net"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

func (c *checker) sidecar(s *networking.Sidecar) {
	if len(s.Egress) == 0 && len(s.Ingress) == 0 && s.OutboundTrafficPolicy == nil && s.InboundConnectionPool == nil {
		c.fail("spec", "the sidecar says nothing: ingress, egress, outboundTrafficPolicy or inboundConnectionPool is needed")
	}
	if s.WorkloadSelector != nil {
		if len(s.WorkloadSelector.Labels) == 0 {
			c.warn("spec.workloadSelector", "empty: it selects every workload of the namespace")
		}
		c.labelMap("spec.workloadSelector.labels", s.WorkloadSelector.Labels)
	}
	ports := map[uint32]bool{}
	for i, l := range s.Ingress {
		c.ingressListener(index("spec.ingress", i), l, ports)
	}
	c.egressListeners(s.Egress)
	c.connectionPool("spec.inboundConnectionPool", s.InboundConnectionPool)
	c.outboundPolicy("spec.outboundTrafficPolicy", s.OutboundTrafficPolicy)
}

func (c *checker) ingressListener(field string, l *networking.IstioIngressListener, ports map[uint32]bool) {
	p := l.GetPort()
	if p == nil {
		c.fail(field+".port", "missing")
		return
	}
	if isUnixAddress(l.Bind) {
		c.fail(field+".bind", "an ingress listener cannot be a unix socket")
	}
	c.listenerBind(field, l.Bind, l.CaptureMode, p)
	if ports[p.Number] {
		c.fail(field+".port.number", "%d is the port of another listener, too", p.Number)
	}
	ports[p.Number] = true
	c.defaultEndpoint(field+".defaultEndpoint", l.DefaultEndpoint)
	if l.Tls != nil {
		c.ingressTLS(field+".tls", l.Tls)
		if !isTLS(p.Protocol) {
			c.fail(field+".tls", "needs the protocol HTTPS or TLS, not %q", p.Protocol)
		}
	}
	c.connectionPool(field+".connectionPool", l.ConnectionPool)
	if l.ConnectionPool.GetHttp() != nil && strings.EqualFold(p.Protocol, "TCP") {
		c.warn(field+".connectionPool.http", "does nothing for TCP")
	}
}

func (c *checker) ingressTLS(field string, t *networking.ServerTLSSettings) {
	if t.HttpsRedirect || t.CredentialName != "" || t.Mode == networking.ServerTLSSettings_ISTIO_MUTUAL ||
		t.Mode == networking.ServerTLSSettings_PASSTHROUGH || t.Mode == networking.ServerTLSSettings_AUTO_PASSTHROUGH {
		c.fail(field, "a sidecar takes SIMPLE and MUTUAL with certificates in files only")
		return
	}
	c.serverTLS(field, t)
}

func (c *checker) defaultEndpoint(field, endpoint string) {
	if endpoint == "" {
		return
	}
	if isUnixAddress(endpoint) {
		c.failIf(field, unixAddress(endpoint))
		return
	}
	host, port, err := net.SplitHostPort(endpoint)
	n, numeric := strconv.Atoi(port)
	local := host == "" || host == "127.0.0.1" || host == "0.0.0.0" || host == "::1" || host == "::"
	if err != nil || numeric != nil || portNumber(n) != nil || !local {
		c.fail(field, "%q is none of 127.0.0.1:port, 0.0.0.0:port, [::1]:port, [::]:port and unix:///path", endpoint)
	}
}

// listenerBind checks what listeners of both directions have.
func (c *checker) listenerBind(field, bind string, mode networking.CaptureMode, p *networking.SidecarPort) {
	if isUnixAddress(bind) {
		c.failIf(field+".bind", unixAddress(bind))
		if mode != networking.CaptureMode_DEFAULT && mode != networking.CaptureMode_NONE {
			c.fail(field+".captureMode", "%s does not go with a unix socket", mode)
		}
		if p.GetNumber() != 0 {
			c.fail(field+".port.number", "a unix socket has no port")
		}
	} else {
		if bind != "" && !isIP(bind) {
			c.fail(field+".bind", "%q is neither an IP address nor a unix socket", bind)
		}
		c.failIf(field+".port.number", portNumber(p.GetNumber()))
	}
	if p.GetProtocol() != "" && !knownProtocol(p.GetProtocol()) {
		c.fail(field+".port.protocol", "%q is not a protocol", p.GetProtocol())
	}
}

func (c *checker) egressListeners(listeners []*networking.IstioEgressListener) {
	ports, sockets := map[uint32]bool{}, map[string]bool{}
	catchAll := false
	for i, l := range listeners {
		at := index("spec.egress", i)
		c.egressHosts(at+".hosts", l.GetHosts())
		p := l.GetPort()
		if p == nil {
			switch {
			case catchAll:
				c.fail(at+".port", "missing; only one listener may have none")
			case i != len(listeners)-1:
				c.fail(at+".port", "missing; the listener without a port must be the last")
			case isUnixAddress(l.GetBind()):
				c.fail(at+".port", "missing; a unix socket needs its protocol")
			case l.GetBind() != "" && !isIP(l.GetBind()):
				c.fail(at+".bind", "%q is not an IP address", l.GetBind())
			}
			catchAll = true
			continue
		}
		c.listenerBind(at, l.Bind, l.CaptureMode, p)
		switch {
		case isUnixAddress(l.Bind) && sockets[l.Bind]:
			c.fail(at+".bind", "%q is the socket of another listener, too", l.Bind)
		case !isUnixAddress(l.Bind) && ports[p.Number]:
			c.fail(at+".port.number", "%d is the port of another listener, too", p.Number)
		}
		if isUnixAddress(l.Bind) {
			sockets[l.Bind] = true
		} else {
			ports[p.Number] = true
		}
	}
}

func (c *checker) egressHosts(field string, hosts []string) {
	if len(hosts) == 0 {
		c.fail(field, "missing")
	}
	seen := map[string]bool{}
	for i, h := range hosts {
		at := index(field, i)
		namespace, host, ok := strings.Cut(h, "/")
		switch {
		case !ok:
			c.fail(at, "%q is not namespace/host", h)
			continue
		case !egressNamespace(namespace):
			c.fail(at, "%q: the namespace is none of *, ., ~ and a name", h)
		case host != "*":
			if err := wildcardDomain(host); err != nil {
				c.failIf(at, err)
			} else if !strings.Contains(host, ".") {
				c.fail(at, "%q is a short name; write the full one", h)
			}
		}
		if seen[h] {
			c.warn(at, "%q is listed twice", h)
		}
		seen[h] = true
	}
	if seen["*/*"] && len(hosts) > 1 {
		c.warn(field, "*/* covers the other hosts")
	}
}

// egressNamespace takes *, . and names, each also excluded by ~ before it, and ~ alone.
func egressNamespace(s string) bool {
	s, excluded := strings.CutPrefix(s, "~")
	return s == "*" || s == "." || s == "" && excluded || dnsLabel(s)
}

func (c *checker) outboundPolicy(field string, p *networking.OutboundTrafficPolicy) {
	if p == nil {
		return
	}
	e := p.EgressProxy
	if e == nil {
		return
	}
	if p.Mode != networking.OutboundTrafficPolicy_ALLOW_ANY {
		c.fail(field+".egressProxy", "needs the mode ALLOW_ANY")
	}
	if e.Port == nil {
		c.fail(field+".egressProxy.port", "missing")
	}
	c.destination(field+".egressProxy", e)
}
