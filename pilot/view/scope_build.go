package view

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// buildScope computes a scope. If its Sidecar is gone meanwhile, it is the default scope.
func buildScope(r *model.Reader, id ScopeID) *Scope {
	b := &scopeBuilder{r: r, out: &Scope{Namespace: id.Namespace}}
	if ns, name, ok := strings.Cut(id.Sidecar, "/"); ok {
		for _, s := range r.Sidecars(ns) {
			if s.Name == name {
				b.out.Sidecar = s
			}
		}
	}
	b.exported, b.public = r.VisibleServices(id.Namespace)
	b.rules = b.visibleRules()
	var specs []*networking.IstioEgressListener
	if b.out.Sidecar != nil {
		specs = b.out.Sidecar.Spec.GetEgress()
	}
	if len(specs) == 0 {
		specs = []*networking.IstioEgressListener{nil}
	}
	for _, spec := range specs {
		b.out.Listeners = append(b.out.Listeners, b.listener(spec))
	}
	b.union()
	b.out.OutboundPolicy = b.outboundPolicy()
	return b.out
}

type scopeBuilder struct {
	r                *model.Reader
	out              *Scope
	exported, public []*model.Service
	rules            []*model.VirtualService
}

// visibleRules returns the rules for sidecars that the namespace sees, in order of precedence.
func (b *scopeBuilder) visibleRules() []*model.VirtualService {
	exported, public := b.r.VisibleVirtualServices(b.out.Namespace)
	out := make([]*model.VirtualService, 0, len(exported)+len(public))
	for _, group := range [2][]*model.VirtualService{exported, public} {
		for _, v := range group {
			if v.Bound(model.MeshGateway) {
				out = append(out, v)
			}
		}
	}
	rank := precedence(b.out.Namespace, b.r.Settings().UnifiedSidecarScope)
	compare := func(x, y *model.VirtualService) int { return rank(x) - rank(y) }
	if !slices.IsSortedFunc(out, compare) {
		slices.SortStableFunc(out, compare)
	}
	return out
}

// listener imports what spec names; a nil spec, or one that names nothing to leave out, imports all.
func (b *scopeBuilder) listener(spec *networking.IstioEgressListener) *EgressListener {
	l := &EgressListener{Spec: spec, VirtualServices: b.rules}
	var im *imports
	if spec != nil {
		im = parseImports(spec.GetHosts(), b.out.Namespace)
		l.VirtualServices = nil
		for _, v := range b.rules {
			if im.hasVirtualService(v) {
				l.VirtualServices = append(l.VirtualServices, v)
			}
		}
	}
	l.Services = b.services(im, listenerPort(spec))
	l.routes = newRouteIndex(l.VirtualServices)
	return l
}

// listenerPort returns the port that a listener's services must have, 0 for any. An HTTP proxy listener carries all
// ports.
func listenerPort(spec *networking.IstioEgressListener) uint32 {
	p := spec.GetPort()
	if p == nil || strings.EqualFold(p.GetProtocol(), string(model.HTTPProxy)) {
		return 0
	}
	return p.GetNumber()
}

// services returns what im imports, trimmed to port, and of the services of one host those of one namespace: the
// scope's own, else the first, where a Kubernetes service replaces an external one.
func (b *scopeBuilder) services(im *imports, port uint32) []*ScopedService {
	n := len(b.exported) + len(b.public)
	taken, owner := make([]*model.Service, 0, n), make(map[string]*model.Service, n)
	for _, list := range [2][]*model.Service{b.exported, b.public} {
		for _, s := range list {
			if im != nil && !im.hasService(s) || port != 0 && s.PortByNumber(port) == nil {
				continue
			}
			taken = append(taken, s)
			if has, ok := owner[s.Host]; !ok || b.preferred(s, has) {
				owner[s.Host] = s
			}
		}
	}
	out := serviceList{byHost: make(map[string]int, len(owner))}
	slab := make([]ScopedService, 0, len(owner))
	for _, s := range taken {
		if owner[s.Host].Namespace != s.Namespace {
			continue
		}
		ports := s.Ports
		if port != 0 && len(ports) > 1 {
			ports = []*model.Port{s.PortByNumber(port)}
		}
		if len(slab) < cap(slab) {
			slab = append(slab, ScopedService{Service: s, Ports: ports})
			out.add(&slab[len(slab)-1])
			continue
		}
		out.add(&ScopedService{Service: s, Ports: ports})
	}
	return out.list
}

// preferred tells whether s takes a host over from has, which comes before it.
func (b *scopeBuilder) preferred(s, has *model.Service) bool {
	if own := has.Namespace == b.out.Namespace; own || s.Namespace == b.out.Namespace {
		return !own
	}
	return b.r.Settings().UnifiedSidecarScope && s.Registry == model.Kubernetes && has.Registry != model.Kubernetes
}

// union lists the services of all listeners, then those that the imported rules send traffic to.
func (b *scopeBuilder) union() {
	if len(b.out.Listeners) == 1 && b.out.Sidecar == nil {
		b.out.Services = b.out.Listeners[0].Services // the default scope has all that rules could add
	} else {
		all := serviceList{byHost: map[string]int{}}
		for _, l := range b.out.Listeners {
			for _, s := range l.Services {
				all.add(s)
			}
			for _, v := range l.VirtualServices {
				b.addDestinations(&all, v)
			}
		}
		b.out.Services = all.list
	}
	b.out.byHost = make(map[string]*ScopedService, len(b.out.Services))
	for _, s := range b.out.Services {
		b.out.byHost[s.Host] = s
	}
}

func (b *scopeBuilder) outboundPolicy() *networking.OutboundTrafficPolicy {
	if sc := b.out.Sidecar; sc != nil && sc.Spec.GetOutboundTrafficPolicy() != nil {
		return sc.Spec.GetOutboundTrafficPolicy()
	}
	mode := networking.OutboundTrafficPolicy_ALLOW_ANY
	if p := b.r.Mesh().Config.GetOutboundTrafficPolicy(); p != nil {
		// The two enumerations agree number by number; the mesh's has ALLOW_ANY_DYNAMIC_DNS (3) beyond the other's.
		mode = networking.OutboundTrafficPolicy_Mode(p.GetMode())
	}
	return &networking.OutboundTrafficPolicy{Mode: mode}
}
