package route

import (
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// single plans the configuration of a listener that serves one service. Without a Sidecar that says otherwise, it reads
// what concerns that service's host alone.
func (p *planner) single(n configName) {
	spec, ok := p.c.EgressSpec(n.port)
	if !ok {
		return
	}
	var rules []*model.VirtualService
	if spec == nil {
		rules = p.c.VirtualServicesFor(nil, n.host)
	} else {
		p.l = listingFor(p.c, configName{port: n.port})
		rules = p.l.rules(n.host)
	}
	s := p.service(n.host)
	if s == nil {
		return
	}
	port := portOf(s, n.port)
	if port == nil || !n.grpc && !routed(port) {
		return
	}
	rule := p.ruleOf(rules, s, port.Number)
	if rule == nil && s.Resolution == model.Alias {
		return
	}
	u := p.unit(hostPort(s.Host, port.Number), s, rule, port.Number)
	u.domains = "*"
	if n.grpc {
		u.grpc = true
		p.dnsDomain = p.c.DNSDomain()
		u.domains = strings.Join(serviceDomains(p.naming, s.Service, nil, p.c.Addresses(s.Service), port.Number).domains, "\n")
	}
	p.out.hosts = []hostUnit{u}
}

// service returns the service of a host that the configuration can reach.
func (p *planner) service(host string) *view.ScopedService {
	if p.l != nil {
		return p.l.byHost[host]
	}
	if s := p.c.ScopedService(host); s != nil && portOf(s, p.listen) != nil {
		return s
	}
	return nil
}

// unit returns the unit of a virtual host; its domains are still to be set.
func (p *planner) unit(name string, s *view.ScopedService, v *model.VirtualService, port uint32) hostUnit {
	u := hostUnit{name: name, listen: p.listen, port: port, headers: p.headers}
	if s != nil {
		u.service = s.ServiceKey
	}
	if v != nil {
		u.ruleNamespace, u.rule = v.Namespace, v.Name
		u.targets = p.targets(v)
	}
	return u
}

// targets says where a rule's destinations lead that are not simply host and listening port: aliases, and, where all
// ports are carried, services with one port. The form is "host=target:port" in lines, 0 for the virtual host's port.
func (p *planner) targets(v *model.VirtualService) string {
	if p.l != nil && p.listen != 0 && len(p.l.aliasOf) == 0 {
		return ""
	}
	var lines []string
	add := func(d *networking.Destination) {
		s := p.service(d.GetHost())
		if s == nil {
			return
		}
		host, port := s.Host, p.listen
		if s.Resolution == model.Alias {
			host = s.AliasOf
		}
		if p.listen == 0 && len(s.Ports) == 1 {
			port = s.Ports[0].Number
		}
		if host == s.Host && port == p.listen {
			return
		}
		line := s.Host + "=" + host + ":" + strconv.FormatUint(uint64(port), 10)
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, r := range v.Spec.GetHttp() {
		for _, w := range r.GetRoute() {
			add(w.GetDestination())
		}
		add(r.GetMirror())
		for _, m := range r.GetMirrors() {
			add(m.GetDestination())
		}
	}
	return strings.Join(lines, "\n")
}
