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
	return ask(e, func() map[string]string {
		m := make(map[string]string, len(e.problems))
		for k, err := range e.problems {
			m[k.String()] = err.Error()
		}
		return m
	})
}

// ask returns what f gives on the engine's goroutine, or the zero value if the engine has stopped.
func ask[T any](e *Engine, f func() T) (answer T) {
	answers := make(chan T, 1)
	if e.do(func() { answers <- f() }) != nil {
		return answer
	}
	select {
	case answer = <-answers:
	case <-e.done:
	}
	return answer
}

// Size says how much an engine holds, for people, metrics and tests. Some time after the last client has gone, when what
// nobody uses has been let go, all of it is zero.
type Size struct {
	Clients int // attached sessions
	Classes int // groups of clients that get the same of one slot
	Cells   int // computed values
	Rows    int // rows that a cell has read
	Shared  int // encoded resources, each once however many classes hold it
}

// Size returns the present size; zero for an engine that has stopped.
func (e *Engine) Size() Size {
	return ask(e, func() Size {
		s := Size{Clients: len(e.clients), Cells: e.graph.Stats().Cells, Rows: e.graph.Stats().Keys, Shared: e.interner.len()}
		for _, slot := range e.slots {
			s.Classes += len(slot.bundles)
		}
		return s
	})
}

// len returns how many resources are in use or not yet collected.
func (i *interner) len() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.held)
}
