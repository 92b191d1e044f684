package validate

import (
	"math"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// mesh is the reserved gateway name for all sidecars.
const meshGateway = "mesh"

func (c *checker) virtualService(v *networking.VirtualService) {
	b := binding{
		mesh:    len(v.Gateways) == 0 || slices.Contains(v.Gateways, meshGateway),
		gateway: slices.ContainsFunc(v.Gateways, func(g string) bool { return g != meshGateway }),
	}
	b.delegate = len(v.Hosts) == 0
	if b.delegate {
		c.delegateBody(v)
	}
	if len(v.Http)+len(v.Tls)+len(v.Tcp) == 0 {
		c.fail("spec", "one of http, tls and tcp is needed")
	}
	c.gatewayNames("spec.gateways", v.Gateways)
	c.virtualHosts(v.Hosts, b)
	for i, r := range v.Http {
		c.httpRoute(index("spec.http", i), r, b)
	}
	for i, r := range v.Tls {
		c.tlsRoute(index("spec.tls", i), r, v.Hosts)
	}
	for i, r := range v.Tcp {
		c.tcpRoute(index("spec.tcp", i), r)
	}
	c.exportTo(v.ExportTo, false)
}

// binding says what a virtual service applies to.
type binding struct{ mesh, gateway, delegate bool }

func (c *checker) delegateBody(v *networking.VirtualService) {
	if len(v.Gateways) > 0 {
		c.fail("spec.gateways", "a virtual service without hosts is a delegate: it has no gateways of its own")
	}
	if len(v.Tls)+len(v.Tcp) > 0 {
		c.fail("spec", "a virtual service without hosts is a delegate: it has http routes only")
	}
}

func (c *checker) virtualHosts(hosts []string, b binding) {
	for i, h := range hosts {
		at := index("spec.hosts", i)
		if !isIP(h) {
			c.failIf(at, wildcardDomain(h))
		}
		if h == "*" && b.mesh {
			c.fail(at, "* would catch all traffic of the mesh: it is for gateways only")
		}
		for _, other := range hosts[:i] {
			if strings.EqualFold(h, other) || hostCovers(h, other) || hostCovers(other, h) {
				c.fail(at, "%q and %q overlap", other, h)
				break
			}
		}
	}
}

// hostCovers says whether the wildcard host a covers b.
func hostCovers(a, b string) bool {
	suffix, ok := strings.CutPrefix(strings.ToLower(a), "*")
	return ok && strings.HasSuffix(strings.ToLower(strings.TrimPrefix(b, "*")), suffix)
}

func (c *checker) httpRoute(field string, r *networking.HTTPRoute, b binding) {
	c.httpActions(field, r, b)
	for i, m := range r.Match {
		if m != nil {
			c.httpMatch(index(field+".match", i), m, b)
		}
	}
	c.httpDestinations(field+".route", r)
	c.headerOperations(field+".headers", r.Headers)
	c.redirect(field+".redirect", r.Redirect)
	c.directResponse(field+".directResponse", r.DirectResponse)
	c.rewrite(field+".rewrite", r.Rewrite)
	if r.Rewrite.GetAuthority() != "" && setsAuthority(r.Headers) {
		c.fail(field+".headers.request", "the authority is set by rewrite.authority, too")
	}
	c.failIf(field+".timeout", duration(r.Timeout))
	c.retries(field+".retries", r.Retries)
	c.fault(field+".fault", r.Fault)
	c.mirror(field, r)
	c.cors(field+".corsPolicy", r.CorsPolicy)
}

// httpActions checks which actions stand together.
func (c *checker) httpActions(field string, r *networking.HTTPRoute, b binding) {
	exclude := func(there bool, what, other string) {
		if there {
			c.fail(field, "%s and %s exclude each other", what, other)
		}
	}
	routed := len(r.Route) > 0
	if r.Delegate != nil {
		if b.delegate {
			c.fail(field+".delegate", "a delegate cannot delegate")
		}
		exclude(routed, "delegate", "route")
		exclude(r.Redirect != nil, "delegate", "redirect")
		return
	}
	exclude(routed && r.Redirect != nil, "route", "redirect")
	exclude(routed && r.DirectResponse != nil, "route", "directResponse")
	exclude(r.Redirect != nil && r.DirectResponse != nil, "redirect", "directResponse")
	exclude(r.Redirect != nil && r.Fault != nil, "redirect", "fault")
	exclude(r.Redirect != nil && r.Rewrite != nil, "redirect", "rewrite")
	exclude(r.DirectResponse != nil && r.Fault != nil, "directResponse", "fault")
	exclude(r.DirectResponse != nil && r.Rewrite != nil, "directResponse", "rewrite")
	if !routed && r.Redirect == nil && r.DirectResponse == nil {
		c.fail(field, "route, redirect, directResponse or delegate is needed")
	}
}

func (c *checker) httpDestinations(field string, r *networking.HTTPRoute) {
	var total int64
	for i, d := range r.Route {
		at := index(field, i)
		c.destination(at+".destination", d.GetDestination())
		c.headerOperations(at+".headers", d.GetHeaders())
		if d.GetWeight() < 0 {
			c.fail(at+".weight", "%d is negative", d.GetWeight())
		}
		total += int64(d.GetWeight())
		if setsAuthority(d.GetHeaders()) && (setsAuthority(r.Headers) || r.Rewrite.GetAuthority() != "") {
			c.fail(at+".headers.request", "the authority is set for the whole route, too")
		}
	}
	switch {
	case len(r.Route) > 1 && total == 0:
		c.fail(field, "the weights make 0")
	case total > math.MaxUint32: // Envoy would refuse the whole route configuration
		c.fail(field, "the weights make %d, more than %d", total, uint32(math.MaxUint32))
	}
}

func (c *checker) destination(field string, d *networking.Destination) {
	if d == nil {
		c.fail(field, "missing")
		return
	}
	if d.Host == "*" {
		c.fail(field+".host", "* names no destination")
	} else {
		c.failIf(field+".host", wildcardDomain(d.Host))
	}
	if d.Subset != "" && !dnsLabel(d.Subset) {
		c.fail(field+".subset", "%q is not the name of a subset", d.Subset)
	}
	if d.Port != nil {
		c.failIf(field+".port.number", portNumber(d.Port.Number))
	}
}

func (c *checker) mirror(field string, r *networking.HTTPRoute) {
	if r.Mirror != nil {
		c.destination(field+".mirror", r.Mirror)
		if len(r.Mirrors) > 0 {
			c.fail(field+".mirrors", "mirror and mirrors exclude each other")
		}
	}
	for i, m := range r.Mirrors {
		at := index(field+".mirrors", i)
		c.destination(at+".destination", m.GetDestination())
		if m.GetPercentage() != nil {
			c.failIf(at+".percentage.value", percent(m.GetPercentage().GetValue()))
		}
	}
	if r.MirrorPercent != nil { //nolint:staticcheck // the deprecated field is what the warning is about
		c.warn(field+".mirrorPercent", "deprecated; use mirrorPercentage")
		if n := r.MirrorPercent.GetValue(); n > 100 { //nolint:staticcheck // as above
			c.fail(field+".mirrorPercent", "%d is not a percentage", n)
		}
	}
	if r.MirrorPercentage != nil {
		c.failIf(field+".mirrorPercentage.value", percent(r.MirrorPercentage.Value))
	}
}

func (c *checker) tlsRoute(field string, r *networking.TLSRoute, hosts []string) {
	if len(r.Match) == 0 {
		c.fail(field+".match", "missing: a TLS route needs sniHosts")
	}
	for i, m := range r.Match {
		at := index(field+".match", i)
		if m == nil {
			c.fail(at, "missing")
			continue
		}
		if len(m.SniHosts) == 0 {
			c.fail(at+".sniHosts", "missing")
		}
		for j, h := range m.SniHosts {
			c.sniHost(index(at+".sniHosts", j), h, hosts)
		}
		c.l4Match(at, l4Match{
			subnets: m.DestinationSubnets, port: m.Port, labels: m.SourceLabels, gateways: m.Gateways, namespace: m.SourceNamespace,
		})
	}
	c.l4Destinations(field+".route", r.Route)
}

func (c *checker) sniHost(field, sni string, hosts []string) {
	if isIP(sni) {
		c.warn(field, "%q is an IP address, which clients do not send as SNI", sni)
	} else {
		c.failIf(field, wildcardDomain(sni))
	}
	if !slices.ContainsFunc(hosts, func(h string) bool { return h == "*" || strings.EqualFold(h, sni) || hostCovers(h, sni) }) {
		c.fail(field, "%q is not covered by any of the hosts", sni)
	}
}

type l4Match struct {
	subnets   []string
	port      uint32
	labels    map[string]string
	gateways  []string
	namespace string
}

func (c *checker) l4Match(field string, m l4Match) {
	for i, s := range m.subnets {
		c.failIf(index(field+".destinationSubnets", i), ipOrPrefix(s))
	}
	c.matchScope(field, m)
}

// matchScope checks what matches of all protocols have.
func (c *checker) matchScope(field string, m l4Match) {
	if m.port != 0 {
		c.failIf(field+".port", portNumber(m.port))
	}
	c.labelMap(field+".sourceLabels", m.labels)
	c.gatewayNames(field+".gateways", m.gateways)
	if m.namespace != "" && !dnsLabel(m.namespace) {
		c.fail(field+".sourceNamespace", "%q is not the name of a namespace", m.namespace)
	}
}

func (c *checker) tcpRoute(field string, r *networking.TCPRoute) {
	for i, m := range r.Match {
		if m != nil {
			c.l4Match(index(field+".match", i), l4Match{
				subnets: m.DestinationSubnets, port: m.Port, labels: m.SourceLabels, gateways: m.Gateways,
				namespace: m.SourceNamespace,
			})
		}
	}
	c.l4Destinations(field+".route", r.Route)
}

func (c *checker) l4Destinations(field string, routes []*networking.RouteDestination) {
	if len(routes) == 0 {
		c.fail(field, "missing")
	}
	var total int64
	for i, d := range routes {
		c.destination(index(field, i)+".destination", d.GetDestination())
		if d.GetWeight() < 0 {
			c.fail(index(field, i)+".weight", "%d is negative", d.GetWeight())
		}
		total += int64(d.GetWeight())
	}
	if len(routes) > 1 && total == 0 {
		c.fail(field, "the weights make 0")
	}
}
