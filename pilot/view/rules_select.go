package view

import "github.com/mizzen-mesh/mizzen/pilot/model"

func (c *Context) destinationRule(host, serviceNamespace string) *model.DestinationRule {
	return c.pickRule(host, serviceNamespace, false)
}

func (c *Context) inboundDestinationRule(host, serviceNamespace string) *model.DestinationRule {
	return c.pickRule(host, serviceNamespace, true)
}

// pickRule asks for the proxy's namespace only if the answer is not the same in every namespace, and for its labels
// only if one of the rules in question has a selector.
func (c *Context) pickRule(host, serviceNamespace string, inbound bool) *model.DestinationRule {
	candidates := c.DestinationRules(host)
	if len(candidates) == 0 {
		return nil
	}
	l := model.RuleLookup{
		Candidates: candidates, Root: c.Mesh().RootNamespace(), Service: serviceNamespace, Inbound: inbound,
	}
	if d, ok := l.Everywhere(); ok {
		return d
	}
	client := c.ProxyNamespace()
	return l.Pick(client, c.Labels)
}

// mtlsPolicies is the policies in force for one workload, found scope by scope.
type mtlsPolicies struct {
	mesh, namespace, workload *model.PeerAuthentication
}

// peerAuthentications finds the oldest policy of each scope. Policies with a selector count in their own namespace,
// but never in the root namespace; labels is called only if there is one.
func (c *Context) peerAuthentications(namespace string, labels func() map[string]string) mtlsPolicies {
	var out mtlsPolicies
	root := c.Mesh().RootNamespace()
	for _, p := range c.PeerAuthentications(root) {
		if len(p.Selector()) == 0 {
			out.mesh = p
			break
		}
	}
	if namespace == root {
		return out
	}
	for _, p := range c.PeerAuthentications(namespace) {
		switch selector := p.Selector(); {
		case len(selector) == 0 && out.namespace == nil:
			out.namespace = p
		case len(selector) > 0 && out.workload == nil && labels != nil && model.LabelsMatch(selector, labels()):
			out.workload = p
		}
	}
	return out
}

// mode returns what is in force for the workload as a whole.
func (m mtlsPolicies) mode() model.MTLSMode {
	for _, p := range [3]*model.PeerAuthentication{m.workload, m.namespace, m.mesh} {
		if mode := p.Mode(); mode != model.MTLSUnset {
			return mode
		}
	}
	return model.MTLSPermissive
}

// ports returns the modes of the ports that the workload's policy names.
func (m mtlsPolicies) ports() map[uint32]model.MTLSMode {
	ports := m.workload.Ports()
	for port, mode := range ports {
		if mode == model.MTLSUnset {
			ports[port] = m.mode()
		}
	}
	return ports
}

func (m mtlsPolicies) port(port uint32) model.MTLSMode {
	if mode, ok := m.ports()[port]; ok && port != 0 {
		return mode
	}
	return m.mode()
}

func (c *Context) inboundMTLS(port uint32) model.MTLSMode {
	return c.peerAuthentications(c.ProxyNamespace(), c.Labels).port(port)
}

func (c *Context) inboundPortMTLS() map[uint32]model.MTLSMode {
	return c.peerAuthentications(c.ProxyNamespace(), c.Labels).ports()
}

func (c *Context) namespaceMTLS(namespace string) model.MTLSMode {
	return c.peerAuthentications(namespace, nil).mode()
}

func (c *Context) endpointMTLS(e *model.Endpoint) model.MTLSMode {
	return c.peerAuthentications(e.Namespace, func() map[string]string { return e.Labels }).port(e.Port)
}
