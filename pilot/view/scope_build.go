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
	b.out.common = b.out.Sidecar == nil && !b.contested && !slices.ContainsFunc(b.rules, func(v *model.VirtualService) bool { return v.FromGatewayAPI })
	return b.out
}

type scopeBuilder struct {
	r                *model.Reader
	out              *Scope
	exported, public []*model.Service
	rules            []*model.VirtualService
	lists            []serviceList // of the listeners
	contested        bool          // services of several namespaces have one host
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
	services := b.services(im, listenerPort(spec))
	b.lists = append(b.lists, services)
	l.Services = services.list
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
func (b *scopeBuilder) services(im *imports, port uint32) serviceList {
	n := 0
	if im == nil {
		n = len(b.exported) + len(b.public)
	}
	out := newServiceList(n)
	slab := make([]ScopedService, n)
	for _, list := range [2][]*model.Service{b.exported, b.public} {
		for _, s := range list {
			if im != nil && !im.hasService(s) {
				continue
			}
			ports := s.Ports
			if port != 0 {
				p := s.PortByNumber(port)
				if p == nil {
					continue
				}
				if len(ports) > 1 {
					ports = []*model.Port{p}
				}
			}
			if has := out.byHost[s.Host]; has != nil && has.Namespace != s.Namespace {
				b.contested = true
				if !b.preferred(s, has.Service) {
					continue
				}
				out.drop(has)
			}
			if len(slab) == 0 {
				slab = make([]ScopedService, 32)
			}
			slab[0] = ScopedService{Service: s, Ports: ports}
			out.add(&slab[0])
			slab = slab[1:]
		}
	}
	return out
}

func (b *scopeBuilder) preferred(s, has *model.Service) bool {
	return preferred(s, has, b.out.Namespace, b.r.Settings().UnifiedSidecarScope)
}

// preferred tells whether in namespace s takes a host over from has, which comes before it.
func preferred(s, has *model.Service, namespace string, kubernetesFirst bool) bool {
	if own := has.Namespace == namespace; own || s.Namespace == namespace {
		return !own
	}
	return kubernetesFirst && s.Registry == model.Kubernetes && has.Registry != model.Kubernetes
}

// union lists the services of all listeners, then those that the imported rules send traffic to.
func (b *scopeBuilder) union() {
	all := b.lists[0] // the default scope has all that rules could add
	if b.out.Sidecar != nil {
		all = newServiceList(0)
		for _, l := range b.out.Listeners {
			for _, s := range l.Services {
				all.add(s)
			}
			for _, v := range l.VirtualServices {
				b.addDestinations(&all, v)
			}
		}
	}
	b.out.Services, b.out.byHost = all.list, all.byHost
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
