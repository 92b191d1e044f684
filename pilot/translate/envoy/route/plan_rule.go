package route

import (
	"slices"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// hostsOnlyPort is where the hosts of a rule that matches no service are served.
const hostsOnlyPort = 80

// planRule adds the virtual hosts of one rule: first those of its hosts that no service has, then its services'.
func (p *planner) planRule(v *model.VirtualService, wild []*view.ScopedService) {
	hosts, services := p.split(v, wild)
	if v.FromGatewayAPI {
		services = slices.DeleteFunc(services, func(s *view.ScopedService) bool { return !p.governs(v, s) })
		if len(services) == 0 {
			return
		}
	}
	var ports []uint32
	for _, s := range services {
		for _, port := range p.ports(s) {
			if !slices.Contains(ports, port.Number) {
				ports = append(ports, port.Number)
			}
		}
	}
	if len(ports) == 0 && p.listen == hostsOnlyPort {
		ports = []uint32{hostsOnlyPort}
	}
	for _, port := range ports {
		if !p.pass(v, port) {
			continue
		}
		for _, h := range hosts {
			p.addHost(h, v, port)
		}
		for _, s := range services {
			if sp := portOf(s, port); sp != nil && routed(sp) {
				p.served[servicePort{s, port}] = struct{}{}
				p.addService(s, v, port)
			}
		}
	}
}

// split tells a rule's hosts that no service has from the services that it routes to. Wildcards stand for services where
// there are any, except in Gateway API routes.
func (p *planner) split(v *model.VirtualService, wild []*view.ScopedService) (hosts []string, services []*view.ScopedService) {
	var wildcards []string
	for _, h := range v.Hosts {
		switch s := p.l.byHost[h]; {
		case model.IsWildcard(h):
			wildcards = append(wildcards, h)
		case s != nil:
			services = append(services, s)
		default:
			hosts = append(hosts, h)
		}
	}
	for _, h := range wildcards {
		if v.FromGatewayAPI || !p.meetsAny(h) {
			hosts = append(hosts, h)
		}
	}
	if !v.FromGatewayAPI {
		for _, s := range wild {
			if !slices.Contains(services, s) {
				services = append(services, s)
			}
		}
	}
	return hosts, services
}

// meetsAny tells whether a wildcard has a name in common with any service.
func (p *planner) meetsAny(wildcard string) bool {
	return slices.ContainsFunc(p.l.services, func(s *view.ScopedService) bool {
		return model.HostMatches(wildcard, s.Host)
	})
}

// addHost adds the virtual host of a host that no service has.
func (p *planner) addHost(host string, v *model.VirtualService, port uint32) {
	name := hostPort(host, port)
	if host == "" || !p.claimName(name) {
		return
	}
	list := &domainList{}
	list.add(host, false)
	if domains := p.claim(list, port); len(domains) > 0 {
		u := p.unit(name, nil, v, port)
		u.domains = strings.Join(domains, "\n")
		p.out.hosts = append(p.out.hosts, u)
	}
}

// addService adds the virtual host of a service's port, with the routes of v or the default route.
func (p *planner) addService(s *view.ScopedService, v *model.VirtualService, port uint32) {
	name := hostPort(s.Host, port)
	if !p.claimName(name) {
		return
	}
	u := p.unit(name, s, v, port)
	addresses := p.c.Addresses(s.Service)
	aliases := p.l.aliases[s.Host]
	if len(aliases) == 0 && p.listen != 0 && p.claimStandard(s.Service, addresses) {
		u.reach = reachOf(s.Host, p.dnsDomain)
		p.out.hosts = append(p.out.hosts, u)
		return
	}
	suffix := uint32(0)
	if p.listen == 0 {
		suffix = port
	}
	if domains := p.claim(serviceDomains(p.naming, s.Service, aliases, addresses, suffix), port); len(domains) > 0 {
		u.domains = strings.Join(domains, "\n")
		p.out.hosts = append(p.out.hosts, u)
	}
}

func (p *planner) claimName(name string) bool {
	if _, dup := p.names[name]; dup {
		return false
	}
	p.names[name] = struct{}{}
	return true
}

// claimStandard claims all domains of a plain service, or none: the usual case, in which a virtual host needs no list.
func (p *planner) claimStandard(s *model.Service, addresses []string) bool {
	if !strings.Contains(p.dnsDomain, svcInfix) || s.Headless() {
		return false
	}
	host := strings.ToLower(s.Host)
	if host != s.Host || !p.free(host) || !p.free(host+".") {
		return false
	}
	guesses := shortNames(host, reachOf(host, p.dnsDomain))
	for _, g := range guesses {
		if _, real := p.real[g]; real || !p.free(g) {
			return false
		}
	}
	for _, a := range addresses {
		if strings.Contains(a, ":") || !p.free(a) {
			return false
		}
	}
	p.domains[host], p.domains[host+"."] = struct{}{}, struct{}{}
	for _, list := range [2][]string{guesses, addresses} {
		for _, d := range list {
			p.domains[d] = struct{}{}
		}
	}
	return true
}

func (p *planner) free(domain string) bool {
	_, taken := p.domains[domain]
	return !taken
}

// claim takes what is free of list. A guess gives way to a real host of that name. Where all ports are carried, names
// without a port belong to port 80.
func (p *planner) claim(list *domainList, port uint32) []string {
	out := list.domains[:0:0]
	for _, d := range list.domains {
		key := strings.ToLower(d)
		if !p.free(key) {
			continue
		}
		if _, guess := list.guesses[d]; guess {
			if _, real := p.real[d]; real {
				continue
			}
		}
		p.domains[key] = struct{}{}
		if p.listen != 0 || port == hostsOnlyPort || strings.Contains(d, ":") {
			out = append(out, d)
		}
	}
	return out
}
