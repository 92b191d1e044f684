package view

import "github.com/mizzen-mesh/mizzen/pilot/model"

func (c *Context) destinationRule(host, serviceNamespace string) *model.DestinationRule { return nil }

func (c *Context) inboundDestinationRule(host, serviceNamespace string) *model.DestinationRule {
	return nil
}

func (c *Context) inboundMTLS(port uint32) model.MTLSMode { return model.MTLSPermissive }

func (c *Context) namespaceMTLS(namespace string) model.MTLSMode { return model.MTLSPermissive }

func (c *Context) endpointMTLS(e *model.Endpoint) model.MTLSMode { return model.MTLSPermissive }
