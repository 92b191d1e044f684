package view

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// The package's cells; their argument is a ScopeID.
const (
	// KindScope is the kind of egress scopes.
	KindScope     cell.Kind = 1
	kindTransport cell.Kind = 2 // scopes without HTTP rules
	kindShared    cell.Kind = 3 // the ScopeID that stands for a default scope
)

// ScopeID names a scope: that of a Sidecar object ("namespace/name"), or the default one, in a namespace. A Sidecar of
// the root namespace makes another scope in every namespace that it applies to.
type ScopeID struct {
	Namespace string
	Sidecar   string
}

// DefineScope tells g how scopes are computed from the PushContext that pc returns.
func DefineScope(g *cell.Graph, pc func() *model.PushContext) {
	g.Define(KindScope, func(rec *cell.Recorder, id cell.ID, _ cell.Env) any {
		arg, _ := id.Arg.(ScopeID)
		return buildScope(model.NewReader(pc(), rec), arg)
	}, sameScope)
	g.Define(kindTransport, func(rec *cell.Recorder, id cell.ID, env cell.Env) any {
		s, _ := g.Get(rec, cell.ID{Kind: KindScope, Arg: id.Arg}, env).Value().(*Scope)
		return transportOf(s)
	}, sameScope)
	g.Define(kindShared, func(rec *cell.Recorder, id cell.ID, env cell.Env) any {
		own, _ := id.Arg.(ScopeID)
		r := model.NewReader(pc(), rec)
		services, _ := r.VisibleServices(own.Namespace)
		rules, _ := r.VisibleVirtualServices(own.Namespace)
		if len(services) > 0 || len(rules) > 0 {
			return own
		}
		if s, _ := g.Get(rec, cell.ID{Kind: KindScope, Arg: ScopeID{}}, env).Value().(*Scope); !s.common {
			return own
		}
		return ScopeID{}
	}, func(a, b any) bool { return a == b })
}

func (c *Context) scope() *Scope {
	id := c.scopeID()
	if c.graph == nil {
		return buildScope(c.Reader, id)
	}
	s, _ := c.Cell(cell.ID{Kind: KindScope, Arg: id}).(*Scope)
	return s
}

func (c *Context) sharedScopeID() ScopeID {
	id := c.scopeID()
	if id.Sidecar != "" {
		return id
	}
	shared, _ := c.Cell(cell.ID{Kind: kindShared, Arg: id}).(ScopeID)
	return shared
}

func (c *Context) scopeID() ScopeID {
	id := ScopeID{Namespace: c.ProxyNamespace()}
	if sc := c.Sidecar(); sc != nil {
		id.Sidecar = sc.Row()
	}
	return id
}

// transportOf returns s without the rules that have HTTP routes alone.
func transportOf(s *Scope) *Scope {
	if s == nil {
		return nil
	}
	out := *s
	out.Listeners = make([]*EgressListener, len(s.Listeners))
	for i, l := range s.Listeners {
		t := &EgressListener{Spec: l.Spec, Services: l.Services}
		for _, v := range l.VirtualServices {
			if len(v.Spec.GetTcp()) > 0 || len(v.Spec.GetTls()) > 0 {
				t.VirtualServices = append(t.VirtualServices, v)
			}
		}
		t.routes = newRouteIndex(t.VirtualServices)
		out.Listeners[i] = t
	}
	return &out
}

// scopedService makes the choice that scopeBuilder.services makes, for one host. Without the preference for Kubernetes
// the choice depends on the order of the list of all services, which only the scope has.
func (c *Context) scopedService(host string) *ScopedService {
	if c.Sidecar() != nil || !c.Settings().UnifiedSidecarScope {
		return c.Scope().Find(host)
	}
	all := c.ServicesOfHost(host)
	var best *model.Service
	switch {
	case len(all) == 0:
		return nil
	case len(all) == 1 && all[0].ExportTo.Public:
		best = all[0]
	default:
		best = bestVisible(all, c.ProxyNamespace())
	}
	if best == nil {
		return nil
	}
	return &ScopedService{Service: best, Ports: best.Ports}
}

// bestVisible folds the services that namespace sees in the order of Reader.VisibleServices.
func bestVisible(all []*model.Service, namespace string) *model.Service {
	var visible []*model.Service
	for _, s := range all {
		if s.ExportTo.Allows(namespace) {
			visible = append(visible, s)
		}
	}
	slices.SortFunc(visible, func(a, b *model.Service) int {
		switch {
		case a.ExportTo.Public == b.ExportTo.Public:
			return model.OlderService(a, b)
		case b.ExportTo.Public:
			return -1
		}
		return 1
	})
	var best *model.Service
	for _, s := range visible {
		if best == nil || preferred(s, best, namespace, true) {
			best = s
		}
	}
	return best
}

func (s *Scope) find(host string) *ScopedService { return s.byHost[host] }

// SelectSidecar returns the Sidecar object that applies to a proxy, or nil: the first of its own namespace whose
// selector is absent or matches, else the root namespace's oldest without a selector. Only sidecars have one.
func SelectSidecar(r *model.Reader, namespace string, labels map[string]string, typ Type) *model.Sidecar {
	if typ != Sidecar {
		return nil
	}
	for _, s := range r.Sidecars(namespace) {
		if model.LabelsMatch(s.Selector, labels) {
			return s
		}
	}
	root := r.Mesh().RootNamespace()
	if root == namespace {
		return nil
	}
	for _, s := range r.Sidecars(root) {
		if s.Selector == nil {
			return s
		}
	}
	return nil
}

// sameScope is the cell.Equal of scopes: they are interchangeable when they hold the same rows.
func sameScope(a, b any) bool {
	x, _ := a.(*Scope)
	y, _ := b.(*Scope)
	if x == nil || y == nil {
		return x == y
	}
	return x.Namespace == y.Namespace && x.Sidecar == y.Sidecar && x.common == y.common && sameServices(x.Services, y.Services) &&
		slices.EqualFunc(x.Listeners, y.Listeners, sameListener) && proto.Equal(x.OutboundPolicy, y.OutboundPolicy)
}

func sameListener(a, b *EgressListener) bool {
	return a.Spec == b.Spec && slices.Equal(a.VirtualServices, b.VirtualServices) && sameServices(a.Services, b.Services)
}

func sameServices(a, b []*ScopedService) bool {
	return slices.EqualFunc(a, b, func(x, y *ScopedService) bool {
		return x == y || x.Service == y.Service && slices.Equal(x.Ports, y.Ports)
	})
}
