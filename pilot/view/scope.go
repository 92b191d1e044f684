package view

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Scope is what a proxy's egress reaches: the services and routing rules that its Sidecar, or the default, imports. It
// is immutable and shared.
type Scope struct {
	Namespace string
	Sidecar   *model.Sidecar // nil for the default scope
	// Services is the union over the listeners: one entry a host, in service order.
	Services []*ScopedService
	// Listeners are the egress listeners in order; the default scope has one, without a port.
	Listeners []*EgressListener
	// OutboundPolicy is the Sidecar's own, or the mesh's.
	OutboundPolicy *networking.OutboundTrafficPolicy

	byHost map[string]*ScopedService
	// common is set if a namespace makes a difference only through what is exported to it alone.
	common bool
}

// ScopedService is a service as a scope sees it.
type ScopedService struct {
	*model.Service
	// Ports are the ports visible in the scope: the service's own list, or a part of it, or merged with those of a
	// service of the same host.
	Ports []*model.Port
}

// EgressListener is one egress listener of a scope.
type EgressListener struct {
	// Spec is nil for the listener of the default scope.
	Spec            *networking.IstioEgressListener
	Services        []*ScopedService
	VirtualServices []*model.VirtualService // bound to the mesh, in order of precedence

	routes routeIndex
}

// Find returns the scope's service for a host, or nil.
func (s *Scope) Find(host string) *ScopedService { return s.find(host) }

// VirtualServicesFor returns the listener's rules that have a host which covers host, those of the most specific host
// first, rules of one host in their order. The slice is shared: it must not be modified.
func (s *Scope) VirtualServicesFor(l *EgressListener, host string) []*model.VirtualService {
	return l.routes.find(host)
}

// ListenerForPort returns the egress listener that serves a port: the first that has no port or exactly this one, nil
// if there is none.
func (s *Scope) ListenerForPort(port uint32) *EgressListener {
	for _, l := range s.Listeners {
		if servesPort(l.Spec, port) {
			return l
		}
	}
	return nil
}

func servesPort(l *networking.IstioEgressListener, port uint32) bool {
	n := l.GetPort().GetNumber()
	return l.GetPort() == nil || n == port && n != 0
}

// Scope returns the proxy's egress scope. Whoever asks is computed anew when anything in the scope changes; what needs
// one service only reads that by its key.
func (c *Context) Scope() *Scope { return c.scope() }

// SharedScopeID names a scope that is like the proxy's own but for its namespace, and that most namespaces have in
// common. What is computed from such a scope, and not from the proxy's namespace, is computed once for all of them.
func (c *Context) SharedScopeID() ScopeID { return c.sharedScopeID() }

// ScopeOf returns the scope of that name.
func (c *Context) ScopeOf(id ScopeID) *Scope {
	s, _ := c.Cell(cell.ID{Kind: KindScope, Arg: id}).(*Scope)
	return s
}

// TransportScopeOf returns ScopeOf without the VirtualServices that have HTTP routes alone: what depends on connections
// and not on requests is not computed anew for those.
func (c *Context) TransportScopeOf(id ScopeID) *Scope {
	s, _ := c.Cell(cell.ID{Kind: kindTransport, Arg: id}).(*Scope)
	return s
}

// ScopedService returns what Scope().Find(host) finds, or nil. With the default scope it reads only the services of that
// host, and the proxy's namespace only if it matters; with a Sidecar it asks for the whole scope, whose rules can import
// any host.
func (c *Context) ScopedService(host string) *ScopedService { return c.scopedService(host) }

// VirtualServicesFor returns what Scope.VirtualServicesFor gives for the egress listener spec (nil: the default one),
// without reading the whole scope: only rules that cover host count, and the proxy's namespace only if it matters.
func (c *Context) VirtualServicesFor(spec *networking.IstioEgressListener, host string) []*model.VirtualService {
	return c.virtualServicesFor(spec, host)
}

// EgressSpec returns the egress listener of the proxy's Sidecar that serves a port, nil for the default one. The second
// result tells whether there is a listener at all.
func (c *Context) EgressSpec(port uint32) (*networking.IstioEgressListener, bool) {
	sc := c.Sidecar()
	if sc == nil || len(sc.Spec.GetEgress()) == 0 {
		return nil, true
	}
	for _, l := range sc.Spec.GetEgress() {
		if servesPort(l, port) {
			return l, true
		}
	}
	return nil, false
}
