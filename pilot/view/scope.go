package view

import (
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
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
	VirtualServices []*model.VirtualService
}

// Find returns the scope's service for a host, or nil.
func (s *Scope) Find(host string) *ScopedService { return s.find(host) }

// Scope returns the proxy's egress scope.
func (c *Context) Scope() *Scope { return c.scope() }
