package view

// SendsHBONE tells whether the proxy tunnels to endpoints that take HBONE.
func (c *Context) SendsHBONE() bool {
	return c.HasTunnels() && c.Meta("DISABLE_HBONE_SEND") != "true"
}

// HasTunnels tells whether the proxy can have internal listeners, of which tunnels are made. Stock Envoys refuse them
// unless their bootstrap has an extension; those that have it say so with ENABLE_HBONE.
func (c *Context) HasTunnels() bool {
	return c.KnowsHBONE() && (!c.Stock() || c.Meta("ENABLE_HBONE") == "true")
}

// KnowsHBONE tells whether clusters of this control plane's proxies know the tunnel at all.
func (c *Context) KnowsHBONE() bool {
	s := c.Settings()
	return s.EnableAmbient && s.Raw["PILOT_ENABLE_SENDING_HBONE"] != "false"
}

// ListensHBONE tells whether the sidecar takes HBONE itself.
func (c *Context) ListensHBONE() bool {
	s := c.Settings()
	return s.EnableAmbient && s.Raw["PILOT_ENABLE_SIDECAR_LISTENING_HBONE"] != "false" && c.Meta("ENABLE_HBONE") == "true"
}
