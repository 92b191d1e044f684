package view

import (
	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// DestinationRule returns the rule that applies to the proxy's outbound traffic to host, a service of serviceNamespace,
// or nil. It reads the proxy's namespace and labels only if some rule could apply.
func (c *Context) DestinationRule(host, serviceNamespace string) *model.DestinationRule {
	return c.destinationRule(host, serviceNamespace)
}

// InboundDestinationRule is DestinationRule for the proxy's own service: selectors are ignored.
func (c *Context) InboundDestinationRule(host, serviceNamespace string) *model.DestinationRule {
	return c.inboundDestinationRule(host, serviceNamespace)
}

// InboundMTLS returns the mode in force for the proxy's own port (0: any port): workload and port-level policies
// first, then the namespace's, the mesh's, else PERMISSIVE.
func (c *Context) InboundMTLS(port uint32) model.MTLSMode { return c.inboundMTLS(port) }

// InboundPortMTLS returns the modes of the proxy's own ports that a policy sets by number, whether or not a service has
// them.
func (c *Context) InboundPortMTLS() map[uint32]model.MTLSMode { return c.inboundPortMTLS() }

// NamespaceMTLS returns the mode a namespace's services can be expected to accept: the namespace's policy, else the
// mesh's, else PERMISSIVE. Workload-level policies do not count.
func (c *Context) NamespaceMTLS(namespace string) model.MTLSMode { return c.namespaceMTLS(namespace) }

// EndpointMTLS returns the mode in force at an endpoint's workload and port.
func (c *Context) EndpointMTLS(e *model.Endpoint) model.MTLSMode { return c.endpointMTLS(e) }
