package xds

import (
	"iter"
	"slices"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Names is an immutable set of resource names, shared by whoever asks for the same ones. Implementations are comparable.
type Names interface {
	All() iter.Seq[string]
	Len() int
	Has(name string) bool
}

// client is one attached session as the engine sees it. It belongs to the engine's goroutine, but for what Published
// reads under the engine's lock.
type client struct {
	engine *Engine
	proxy  *view.Proxy
	notify func()

	cell    *cell.Cell
	view    *view.View
	bundles map[*slotState]*bundle
	uses    map[string]bool  // wildcard types it watches
	names   map[string]Names // for types asked for by name, what it wants
	gone    bool
}

// Suspect implements cell.Watcher.
func (c *client) Suspect(cell.ID) { c.engine.stale[c] = struct{}{} }

func (e *Engine) defineView() {
	e.graph.Define(kindView, func(rec *cell.Recorder, id cell.ID, _ cell.Env) any {
		return view.Of(model.NewReader(e.pc, rec), id.Arg.(*view.Proxy))
	}, func(a, b any) bool { return a.(*view.View).Same(b.(*view.View)) })
}

// noEnv is the environment of cells that depend on rows alone.
type noEnv struct{}

func (noEnv) Project(cell.Mask) string { return "" }

// Attach adds a client. notify is called, from any goroutine, when Published may give something new; it must be quick.
func (e *Engine) Attach(p *view.Proxy, notify func()) (*Client, error) {
	c := &client{
		engine: e, proxy: p, notify: notify, bundles: map[*slotState]*bundle{}, uses: map[string]bool{}, names: map[string]Names{},
	}
	err := e.do(func() {
		e.clients[c] = struct{}{}
		e.stale[c] = struct{}{}
	})
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// refreshViews recomputes the views that may have changed and puts their clients into the classes they belong to now.
func (e *Engine) refreshViews() {
	for c := range e.stale {
		delete(e.stale, c)
		if c.gone {
			continue
		}
		now := e.graph.Get(nil, cell.ID{Kind: kindView, Arg: c.proxy}, noEnv{})
		if now != c.cell {
			if c.cell != nil {
				e.graph.Unwatch(c.cell, c)
			}
			e.graph.Watch(now, c)
			c.cell = now
		}
		if v := now.Value().(*view.View); v != c.view {
			c.view = v
			for _, s := range e.slots {
				if c.watches(s) {
					e.place(c, s, e.placed)
				}
			}
		}
	}
}

func (c *client) watches(s *slotState) bool {
	if s.named() {
		return c.names[s.TypeURL] != nil
	}
	return c.uses[s.TypeURL]
}

func (c *client) eachName(s *slotState, f func(string)) {
	if n := c.names[s.TypeURL]; n != nil {
		for name := range n.All() {
			f(name)
		}
	}
}

func (c *client) attachment() map[string][]*bundle {
	out := map[string][]*bundle{}
	for _, s := range c.engine.slots {
		if b := c.bundles[s]; b != nil {
			out[s.TypeURL] = append(out[s.TypeURL], b)
		}
	}
	return out
}

func (c *client) settled() {
	if !c.gone {
		c.notify()
	}
}

// Client is a session's handle on the engine. Its methods may be called from any goroutine.
type Client struct{ c *client }

// Published returns what the client may be sent now, all of one PushContext.
func (h *Client) Published() *Published {
	e := h.c.engine
	e.mu.RLock()
	defer e.mu.RUnlock()
	attached := e.attached[h.c]
	p := e.published
	p.Types = make(map[string][]*State, len(attached))
	states := make([]*State, 0, len(e.slots)) // of all types
	for t, bundles := range attached {
		first := len(states)
		for _, b := range bundles {
			states = append(states, b.current.Load())
		}
		p.Types[t] = slices.Clip(states[first:])
	}
	return &p
}

// Use says that the client watches all of a type that is not asked for by name.
func (h *Client) Use(typeURL string) {
	c := h.c
	_ = c.engine.do(func() {
		if c.gone || c.uses[typeURL] {
			return
		}
		c.uses[typeURL] = true
		c.join(typeURL)
	})
}

// Demand says which names of a type the client wants from now, in place of what it said before. A published state that
// holds an entry for each of them follows.
func (h *Client) Demand(typeURL string, names Names) {
	c := h.c
	_ = c.engine.do(func() {
		if c.gone {
			return
		}
		before := c.names[typeURL]
		c.names[typeURL] = names
		if before == nil {
			c.join(typeURL)
			return
		}
		d := c.engine.demandChange(typeURL, before, names)
		for _, s := range c.engine.slots {
			b := c.bundles[s]
			if s.TypeURL != typeURL || b == nil {
				continue
			}
			for _, n := range d.added {
				b.want(n, 1)
			}
			for _, n := range d.removed {
				b.want(n, -1)
			}
		}
		c.engine.tellAfterSettle(c)
	})
}

// demandChange is what one set of names has and another has not.
type demandChange struct {
	before, now    Names
	added, removed []string
}

// demandChange compares two sets. The last answer for a type is remembered: after a change of the mesh hundreds of
// clients go from the same set to the same other one.
func (e *Engine) demandChange(typeURL string, before, now Names) demandChange {
	d := e.demanded[typeURL]
	if d.before == before && d.now == now {
		return d
	}
	d = demandChange{before: before, now: now}
	for n := range now.All() {
		if !before.Has(n) {
			d.added = append(d.added, n)
		}
	}
	for n := range before.All() {
		if !now.Has(n) {
			d.removed = append(d.removed, n)
		}
	}
	e.demanded[typeURL] = d
	return d
}

// Close detaches the client.
func (h *Client) Close() {
	c := h.c
	_ = c.engine.do(func() { c.leave() })
}

// join places the client in the classes of a type it starts to watch.
func (c *client) join(typeURL string) {
	if c.view == nil {
		return // refreshViews places it
	}
	for _, s := range c.engine.slots {
		if s.TypeURL == typeURL && c.watches(s) {
			c.engine.place(c, s, c.engine.placed)
		}
	}
}

func (c *client) leave() {
	if c.gone {
		return
	}
	c.gone = true
	e := c.engine
	for s, b := range c.bundles {
		delete(b.clients, c)
		if s.named() {
			c.eachName(s, func(n string) { b.want(n, -1) })
		}
	}
	if c.cell != nil {
		e.graph.Unwatch(c.cell, c)
	}
	delete(e.clients, c)
	delete(e.stale, c)
	delete(e.placed, c)
	e.mu.Lock()
	delete(e.attached, c)
	e.mu.Unlock()
}

// Settled returns a channel that is closed when everything asked of the engine so far is published.
func (e *Engine) Settled() <-chan struct{} {
	ch := make(chan struct{})
	if err := e.do(func() { e.complete = append(e.complete, ch) }); err != nil {
		close(ch)
	}
	return ch
}
