package view

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// serviceList holds one service a host.
type serviceList struct {
	list   []*ScopedService
	byHost map[string]*ScopedService
}

func newServiceList(size int) serviceList {
	return serviceList{make([]*ScopedService, 0, size), make(map[string]*ScopedService, size)}
}

// add puts s in. If its host is there, a Kubernetes service takes the place of an external one, the ports of services
// that agree otherwise are united, and anything else is passed over.
func (l *serviceList) add(s *ScopedService) {
	has := l.byHost[s.Host]
	switch {
	case has == nil:
		l.byHost[s.Host] = s
		l.list = append(l.list, s)
	case has.Registry != model.Kubernetes && s.Registry == model.Kubernetes:
		l.replace(has, s)
	case mergeable(has.Service, s.Service):
		if ports := unitePorts(has.Ports, s.Ports); len(ports) != len(has.Ports) {
			l.replace(has, &ScopedService{Service: has.Service, Ports: ports})
		}
	}
}

func (l *serviceList) replace(has, s *ScopedService) {
	l.byHost[s.Host] = s
	l.list[slices.Index(l.list, has)] = s
}

// drop takes s out.
func (l *serviceList) drop(s *ScopedService) {
	delete(l.byHost, s.Host)
	i := slices.Index(l.list, s)
	l.list = slices.Delete(l.list, i, i+1)
}

// mergeable tells whether b's ports may be added to a's.
func mergeable(a, b *model.Service) bool {
	if a == b || a.ServiceKey == b.ServiceKey && a.Object == b.Object {
		return true
	}
	return a.ServiceKey == b.ServiceKey && a.Registry == b.Registry && a.Resolution == b.Resolution &&
		maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Selector, b.Selector) && a.ExportTo.Public == b.ExportTo.Public &&
		maps.Equal(a.ExportTo.Namespaces, b.ExportTo.Namespaces)
}

func unitePorts(a, b []*model.Port) []*model.Port {
	out := a[:len(a):len(a)]
	for _, p := range b {
		if !slices.ContainsFunc(a, func(q *model.Port) bool { return q.Number == p.Number }) {
			out = append(out, p)
		}
	}
	return out
}

// destination is a host that a rule sends traffic to, with the ports it names; no ports mean all of them.
type destination struct {
	host  string
	ports map[uint32]struct{}
}

// addDestinations adds the services that v sends traffic to, as far as it names their ports. Services that a listener
// imports by name are not replaced.
func (b *scopeBuilder) addDestinations(all *serviceList, v *model.VirtualService) {
	for _, d := range destinations(v.Spec, b.out.Namespace) {
		s := b.bestService(d.host)
		if s == nil {
			continue
		}
		ports := s.Ports
		if d.ports != nil {
			ports = nil
			for _, p := range s.Ports {
				if _, named := d.ports[p.Number]; named {
					ports = append(ports, p)
				}
			}
			if len(ports) == 0 {
				continue
			}
		}
		all.add(&ScopedService{Service: s, Ports: ports})
	}
}

// bestService returns the service of a host that a rule means: the namespace's own, else of the visible ones a
// Kubernetes one, else the oldest.
func (b *scopeBuilder) bestService(host string) *model.Service {
	var best *model.Service
	for _, s := range b.r.ServicesOfHost(host) {
		switch {
		case s.Namespace == b.out.Namespace:
			return s
		case !s.ExportTo.Allows(b.out.Namespace):
		case best == nil, s.Registry == model.Kubernetes && best.Registry != model.Kubernetes:
			best = s
		case s.Registry == best.Registry && model.OlderService(s, best) < 0:
			best = s
		}
	}
	return best
}

// destinations returns the hosts that a rule sends the traffic of proxies in namespace to, in order of appearance.
func destinations(spec *networking.VirtualService, namespace string) []destination {
	var out []destination
	add := func(d *networking.Destination) {
		if d.GetHost() == "" {
			return
		}
		i := slices.IndexFunc(out, func(x destination) bool { return x.host == d.GetHost() })
		if i < 0 {
			i = len(out)
			out = append(out, destination{d.GetHost(), map[uint32]struct{}{}})
		}
		switch {
		case d.GetPort() == nil:
			out[i].ports = nil
		case out[i].ports != nil:
			out[i].ports[d.GetPort().GetNumber()] = struct{}{}
		}
	}
	for _, r := range spec.GetHttp() {
		if onlyElsewhere(r, namespace) {
			continue
		}
		for _, w := range r.GetRoute() {
			add(w.GetDestination())
		}
		add(r.GetMirror())
		for _, m := range r.GetMirrors() {
			add(m.GetDestination())
		}
	}
	for _, r := range spec.GetTcp() {
		for _, w := range r.GetRoute() {
			add(w.GetDestination())
		}
	}
	for _, r := range spec.GetTls() {
		for _, w := range r.GetRoute() {
			add(w.GetDestination())
		}
	}
	return out
}

// onlyElsewhere tells whether a route counts as other namespaces' own: a match names one, and none names namespace,
// even if another match names none at all (a quirk that Istio's users rely on).
func onlyElsewhere(r *networking.HTTPRoute, namespace string) bool {
	elsewhere := false
	for _, m := range r.GetMatch() {
		switch m.GetSourceNamespace() {
		case "":
		case namespace:
			return false
		default:
			elsewhere = true
		}
	}
	return elsewhere
}
