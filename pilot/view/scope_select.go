package view

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// KindScope is the cell kind of egress scopes; the cell's argument is a ScopeID.
const KindScope cell.Kind = 1

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
}

func (c *Context) scope() *Scope {
	id := ScopeID{Namespace: c.ProxyNamespace()}
	if sc := c.Sidecar(); sc != nil {
		id.Sidecar = sc.Row()
	}
	if c.graph == nil {
		return buildScope(c.Reader, id)
	}
	s, _ := c.Cell(cell.ID{Kind: KindScope, Arg: id}).(*Scope)
	return s
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
	return x.Namespace == y.Namespace && x.Sidecar == y.Sidecar && sameServices(x.Services, y.Services) &&
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
