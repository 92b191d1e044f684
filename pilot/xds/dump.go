package xds

// Resources returns what the client holds of a type once it is up to date, by name; nil if it does not watch the type.
func (c *Connection) Resources(typeURL string) map[string]*Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.session.watches[typeURL]
	if w == nil {
		return nil
	}
	out := map[string]*Resource{}
	for n, r := range items(w.states) {
		if w.covers(n) {
			out[n] = r
		}
	}
	return out
}

// Problems returns the units that cannot be made now, with the reason. Their last good version is in force.
func (e *Engine) Problems() map[string]string {
	out := make(chan map[string]string, 1)
	err := e.do(func() {
		m := make(map[string]string, len(e.problems))
		for k, err := range e.problems {
			m[k.String()] = err.Error()
		}
		out <- m
	})
	if err != nil {
		return nil
	}
	select {
	case m := <-out:
		return m
	case <-e.done:
		return nil
	}
}
