package route

import (
	"slices"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// plan is what a route configuration consists of.
type plan struct {
	// known is false for names that mean nothing: they are answered with an empty configuration.
	known bool
	hosts []hostUnit // sorted by name
	// rest serves unknown hosts; nil where there is one virtual host for all.
	rest *catchAll
}

// samePlan is the cell.Equal of plans.
func samePlan(a, b any) bool {
	x, _ := a.(*plan)
	y, _ := b.(*plan)
	if x == nil || y == nil {
		return x == y
	}
	if (x.rest == nil) != (y.rest == nil) || x.rest != nil && *x.rest != *y.rest {
		return false
	}
	return x.known == y.known && slices.Equal(x.hosts, y.hosts)
}

// headerFlags are the proxy headers that concern routes.
type headerFlags struct {
	attemptCount, forwardedHost bool
}

func proxyHeaders(c *view.Context) headerFlags {
	h := filter.New(c).ProxyConfig().GetProxyHeaders()
	return headerFlags{
		attemptCount:  !h.GetAttemptCount().GetDisabled().GetValue(),
		forwardedHost: h.GetXForwardedHost().GetEnabled().GetValue(),
	}
}

func newPlan(c *view.Context, n configName, spare *notes) *plan {
	if !n.known || n.grpc && c.Generator() != view.GRPC {
		return &plan{}
	}
	p := &planner{c: c, headers: proxyHeaders(c), out: &plan{known: true}, listen: n.port, passes: map[rulePort]bool{}}
	p.absolute = settingOn(c, "PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN", true)
	if n.host != "" {
		p.single(n)
		return p.out
	}
	p.l = listingFor(c, n)
	p.listen, p.dnsDomain = p.l.port, c.DNSDomain()
	if p.l.listener != nil {
		p.notes = spare.take(len(p.l.services))
		defer p.clear() // it would keep what it names
		p.all()
	}
	rest := catchAllOf(p.l.scope.OutboundPolicy, p.headers)
	if p.l.listener == nil || p.free("*") {
		p.out.rest = &rest
	}
	slices.SortFunc(p.out.hosts, func(a, b hostUnit) int { return strings.Compare(a.name, b.name) })
	return p.out
}

// settingOn returns a rare switch of the process.
func settingOn(c *view.Context, name string, byDefault bool) bool {
	switch strings.ToLower(c.Settings().Raw[name]) {
	case "true", "1", "t":
		return true
	case "false", "0", "f":
		return false
	}
	return byDefault
}

// planner makes one plan.
type planner struct {
	c *view.Context
	// l is what the port carries; nil where only one service is looked for, without reading the others.
	l *listing
	naming
	// listen is the listening port, 0 where all ports are carried.
	listen  uint32
	headers headerFlags
	out     *plan

	passes map[rulePort]bool
	*notes // where virtual hosts of many services are planned
}

// notes is what a planner remembers while it plans a whole port. Planners use the same one after the other: most need as
// much room as the one before.
type notes struct {
	room    int                 // for how many services it was used
	names   map[string]struct{} // of virtual hosts
	domains map[string]struct{} // claimed, in lower case
	real    map[string]struct{} // hosts of services with a virtual host of their own, also as "host:port"
	served  map[servicePort]struct{}
}

func newNotes() *notes {
	return &notes{
		names: map[string]struct{}{}, domains: map[string]struct{}{}, real: map[string]struct{}{}, served: map[servicePort]struct{}{},
	}
}

// take returns n for a port with that many services, or others if emptying n would cost more than it saves.
func (n *notes) take(services int) *notes {
	if services < n.room/8 {
		return newNotes()
	}
	n.room = max(n.room, services)
	return n
}

func (n *notes) clear() {
	clear(n.names)
	clear(n.domains)
	clear(n.real)
	clear(n.served)
}

type servicePort struct {
	service *view.ScopedService
	port    uint32
}

type rulePort struct {
	rule *model.VirtualService
	port uint32
}

// ruleOf returns which of the rules for its host gives the service's routes, nil for the default route: the first with
// exactly its host that has a route for the proxy; else the first with its most specific wildcard.
func (p *planner) ruleOf(rules []*model.VirtualService, s *view.ScopedService, port uint32) *model.VirtualService {
	for i, v := range rules {
		exact := names(v, s.Host)
		switch {
		case exact && p.takes(v, s, port):
			return v
		case exact:
			continue
		case i == 0 && !v.FromGatewayAPI && p.takes(v, s, port):
			return v
		}
		return nil
	}
	return nil
}

// names tells whether v names exactly host. A wildcard is never exact, also where a service is one.
func names(v *model.VirtualService, host string) bool {
	return !model.IsWildcard(host) && slices.Contains(v.Hosts, host)
}

// takes tells whether v routes the service's requests for this proxy.
func (p *planner) takes(v *model.VirtualService, s *view.ScopedService, port uint32) bool {
	return p.governs(v, s) && p.pass(v, port)
}

// governs tells whether v may route to s: a Gateway API route is either the producer's or the consumer's.
func (p *planner) governs(v *model.VirtualService, s *view.ScopedService) bool {
	return !v.FromGatewayAPI || v.Namespace == s.Namespace || v.Namespace == p.c.ProxyNamespace()
}

// pass tells whether any route of v is for this proxy and port.
func (p *planner) pass(v *model.VirtualService, port uint32) bool {
	k := rulePort{v, port}
	ok, done := p.passes[k]
	if !done {
		ok = newRuleFilter(p.c, port).any(v)
		p.passes[k] = ok
	}
	return ok
}

// all plans every virtual host of the port: those of rules in order, then those of services without a rule.
func (p *planner) all() {
	p.out.hosts = make([]hostUnit, 0, len(p.l.services))
	p.findReal()
	wild := p.wildcardServices()
	for _, v := range p.l.listener.VirtualServices {
		p.planRule(v, wild[v])
	}
	for _, s := range p.l.services {
		if s.Resolution == model.Alias {
			continue
		}
		for _, port := range p.ports(s) {
			if _, done := p.served[servicePort{s, port.Number}]; !done {
				p.addService(s, nil, port.Number)
			}
		}
	}
}

// ports returns the ports of s that this configuration serves.
func (p *planner) ports(s *view.ScopedService) []*model.Port {
	if p.listen != 0 {
		if port := portOf(s, p.listen); port != nil && routed(port) {
			return []*model.Port{port}
		}
		return nil
	}
	var out []*model.Port
	for _, port := range s.Ports {
		if routed(port) {
			out = append(out, port)
		}
	}
	return out
}

func (p *planner) findReal() {
	for _, s := range p.l.services {
		if s.Resolution == model.Alias && len(p.l.rules(s.Host)) == 0 {
			continue
		}
		for _, port := range p.ports(s) {
			p.real[s.Host] = struct{}{}
			if p.listen == 0 {
				p.real[hostPort(s.Host, port.Number)] = struct{}{}
			}
		}
	}
}

// wildcardServices returns the services that a rule gets by a wildcard host: those for which no rule is more specific.
func (p *planner) wildcardServices() map[*model.VirtualService][]*view.ScopedService {
	if !p.l.ruled {
		return nil
	}
	out := map[*model.VirtualService][]*view.ScopedService{}
	for _, s := range p.l.services {
		if rules := p.l.rules(s.Host); len(rules) > 0 && !names(rules[0], s.Host) {
			out[rules[0]] = append(out[rules[0]], s)
		}
	}
	return out
}
