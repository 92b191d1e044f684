package validate

import (
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// The protocols of ports of gateways, sidecars and service entries.
func knownProtocol(p string) bool {
	switch strings.ToUpper(p) {
	case "HTTP", "HTTPS", "HTTP2", "GRPC", "GRPC-WEB", "MONGO", "MYSQL", "REDIS", "TCP", "TLS", "UDP", "HTTP_PROXY":
		return true
	}
	return false
}

func isHTTP(p string) bool {
	switch strings.ToUpper(p) {
	case "HTTP", "HTTP2", "GRPC", "GRPC-WEB", "HTTP_PROXY":
		return true
	}
	return false
}

func isTLS(p string) bool { return strings.EqualFold(p, "HTTPS") || strings.EqualFold(p, "TLS") }

func (c *checker) gateway(g *networking.Gateway) {
	if !dnsLabel(c.object.Name) {
		// Names of routes hold it, and are cut at dots.
		c.fail("metadata.name", "%q is not a DNS label, as gateways' names must be", c.object.Name)
	}
	if len(g.Servers) == 0 {
		c.fail("spec.servers", "missing")
	}
	names := map[string]bool{}
	for i, s := range g.Servers {
		at := index("spec.servers", i)
		c.server(at, s)
		// Two servers on a port may share its name; two ports may not.
		if name := s.GetPort().GetName(); name != "" {
			if names[name] {
				c.fail(at+".port.name", "%q is the name of another server's port, too", name)
			}
			names[name] = true
		}
	}
	c.labelMap("spec.selector", g.Selector)
}

func (c *checker) server(field string, s *networking.Server) {
	if len(s.GetHosts()) == 0 {
		c.fail(field+".hosts", "missing")
	}
	for i, h := range s.GetHosts() {
		c.serverHost(index(field+".hosts", i), h)
	}
	p := s.GetPort()
	if p == nil {
		c.fail(field+".port", "missing")
		return
	}
	c.serverPort(field, s, p)
	http, tls := isHTTP(p.Protocol), isTLS(p.Protocol)
	switch {
	case tls && s.Tls == nil:
		c.fail(field+".tls", "needed for %s", p.Protocol)
	case !tls && s.Tls != nil && http && !onlyRedirect(s.Tls):
		c.fail(field+".tls", "%s has no TLS but for httpsRedirect", p.Protocol)
	case s.Tls.GetHttpsRedirect() && !http:
		c.warn(field+".tls.httpsRedirect", "does nothing for %s", p.Protocol)
	}
	if tls {
		c.serverTLS(field+".tls", s.Tls)
	}
}

// onlyRedirect says whether settings of TLS ask for nothing but the redirect to HTTPS.
func onlyRedirect(t *networking.ServerTLSSettings) bool {
	return t.Mode == networking.ServerTLSSettings_PASSTHROUGH && t.CredentialName == "" && t.ServerCertificate == "" &&
		t.PrivateKey == "" && t.CaCertificates == "" && len(t.TlsCertificates) == 0 && len(t.CredentialNames) == 0
}

func (c *checker) serverPort(field string, s *networking.Server, p *networking.Port) {
	if p.Name == "" {
		c.fail(field+".port.name", "must not be empty")
	}
	unix := isUnixAddress(s.Bind)
	switch {
	case unix:
		c.failIf(field+".bind", unixAddress(s.Bind))
		if p.Number != 0 {
			c.fail(field+".port.number", "a unix socket has no port")
		}
	case s.Bind != "" && !isIP(s.Bind):
		c.fail(field+".bind", "%q is neither an IP address nor a unix socket", s.Bind)
	}
	if !unix {
		c.failIf(field+".port.number", portNumber(p.Number))
	}
	if !knownProtocol(p.Protocol) || strings.EqualFold(p.Protocol, "UDP") {
		c.fail(field+".port.protocol", "%q is not the protocol of a gateway", p.Protocol)
	}
	if p.TargetPort != 0 { //nolint:staticcheck // the deprecated field is what the error is about
		c.fail(field+".port.targetPort", "not supported at gateways")
	}
}

// serverHost checks "host" and "namespace/host".
func (c *checker) serverHost(field, h string) {
	host := h
	if namespace, rest, ok := strings.Cut(h, "/"); ok {
		host = rest
		if namespace != "*" && namespace != "." && !dnsLabel(namespace) {
			c.fail(field, "%q is not namespace/host", h)
		}
	}
	if host == "*" || isIP(host) {
		return
	}
	switch err := wildcardDomain(host); {
	case err != nil:
		c.failIf(field, err)
	case partialWildcard(host):
		c.fail(field, "%q: a wildcard stands for whole labels only", h)
	case !strings.Contains(host, "."):
		c.fail(field, "%q is a short name; gateways need full ones", h)
	}
}
