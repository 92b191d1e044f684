package xds

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// ErrStopped is returned for requests to an engine that no longer runs.
var ErrStopped = errors.New("the push engine has stopped")

// The cell kinds of the engine; packages under translate use 100 and more, view less than 20.
const (
	kindView  cell.Kind = 20
	kindSlots cell.Kind = 1000 // two for each slot
)

// Engine turns PushContexts into what each class of proxies is sent. One goroutine, Run's, owns the cells and bundles;
// sessions read published states.
type Engine struct {
	log      *slog.Logger
	graph    *cell.Graph
	interner *interner
	lists    *unitLists
	slots    []*slotState
	inbox    chan func()
	done     chan struct{}
	ready    chan struct{} // closed from the start

	// owned by Run's goroutine
	pc       *model.PushContext
	version  string
	queue    []*bundle       // with something suspect
	unbuilt  []*bundle       // with names that were asked for and are not built yet
	settled  []func()        // to call when nothing suspect is left
	complete []chan struct{} // to close when nothing unbuilt is left either
	dropped  int             // units given up since the last sweep
	clients  map[*client]struct{}
	stale    map[*client]struct{} // their view may have changed
	placed   map[*client]struct{} // put into a class, or asked for names, since the last publication
	problems map[problemKey]error
	demanded map[string]demandChange // by type URL, the last one

	// guarded by mu: what a consistent Published is made of
	mu        sync.RWMutex
	published Published // without Types
	attached  map[*client]map[string][]*bundle
}

// problemKey is a unit of one class: another class may well have the same unit without a fault.
type problemKey struct {
	bundle *bundle
	unit   any
}

func (k problemKey) String() string { return fmt.Sprintf("%s %v", k.bundle.slot.Name, k.unit) }

// NewEngine returns an engine for the slots, which are kept in the given order within a type. Define functions of
// generator packages are called with the engine's graph.
func NewEngine(log *slog.Logger, slots []*translate.Slot, define ...func(*cell.Graph, func() *model.PushContext)) *Engine {
	e := &Engine{
		log: log, graph: cell.New(), interner: newInterner(), lists: newUnitLists(), inbox: make(chan func(), 256), done: make(chan struct{}),
		ready:   make(chan struct{}),
		clients: map[*client]struct{}{}, stale: map[*client]struct{}{}, placed: map[*client]struct{}{}, problems: map[problemKey]error{},
		demanded: map[string]demandChange{}, attached: map[*client]map[string][]*bundle{},
	}
	close(e.ready)
	for i, s := range slots {
		st := &slotState{Slot: s, bundles: map[string]*bundle{}}
		st.unitsKind = kindSlots + cell.Kind(2*i)
		st.buildKind = st.unitsKind + 1
		e.slots = append(e.slots, st)
		e.define(st)
	}
	e.defineView()
	for _, d := range define {
		d(e.graph, func() *model.PushContext { return e.pc })
	}
	return e
}

// Run does the engine's work until stop is closed. It is called once.
func (e *Engine) Run(stop <-chan struct{}) {
	defer close(e.done)
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case f := <-e.inbox:
			f()
			e.drain()
			e.settle()
		case <-e.rest():
			e.settle()
		case <-sweep.C:
			e.sweep()
		case <-stop:
			for _, c := range e.complete {
				close(c)
			}
			return
		}
	}
}

// Classes without clients and unused cells are kept for sweepEvery, but not more than sweepDropped units' cells.
const (
	sweepEvery   = 30 * time.Second
	sweepDropped = 10_000
)

// drain takes what else waits, so that a burst of connects costs one publication.
func (e *Engine) drain() {
	for range cap(e.inbox) {
		select {
		case f := <-e.inbox:
			f()
		default:
			return
		}
	}
}

// do runs f on the engine's goroutine and does not wait.
func (e *Engine) do(f func()) error {
	select {
	case e.inbox <- f:
		return nil
	case <-e.done:
		return ErrStopped
	}
}

// Commit makes pc the current PushContext. keys are the rows that differ from the one before. published, if not nil,
// is called when every class holds the result, except for what was asked for so recently that it was not built before.
func (e *Engine) Commit(pc *model.PushContext, keys []cell.Key, version string, published func()) error {
	return e.do(func() {
		e.pc = pc
		e.version = version
		e.graph.Invalidate(keys)
		if published != nil {
			e.settled = append(e.settled, published)
		}
	})
}

func (e *Engine) enqueue(b *bundle) {
	if !b.queued {
		b.queued = true
		e.queue = append(e.queue, b)
	}
}

// settle recomputes what is suspect, builds some of what is asked for newly, moves clients between classes where they no
// longer agree, and publishes.
func (e *Engine) settle() {
	if e.pc != nil {
		e.refreshViews()
		moved := e.placed
		changed := e.refreshQueue(moved)
		changed = append(changed, e.buildAsked(time.Now().Add(sliceTime), moved)...)
		e.publish(changed, moved)
		e.placed = map[*client]struct{}{}
	}
	for _, f := range e.settled {
		f()
	}
	e.settled = nil
	if e.rest() != nil {
		return
	}
	for _, c := range e.complete {
		close(c)
	}
	e.complete = nil
	if e.dropped > sweepDropped {
		e.sweep()
	}
}

// refreshQueue recomputes what is suspect, and returns the classes that it concerned.
func (e *Engine) refreshQueue(moved map[*client]struct{}) (changed []*bundle) {
	for len(e.queue) > 0 {
		queue := e.queue
		e.queue = nil
		grown := map[*slotState]bool{}
		for _, b := range queue {
			b.queued = false
			if b.refresh() {
				grown[b.slot] = true
			}
			changed = append(changed, b)
		}
		for s := range grown {
			e.reclassify(s, moved)
		}
	}
	return changed
}

// tellAfterSettle has c notified at the next publication, whatever that changes.
func (e *Engine) tellAfterSettle(c *client) { e.placed[c] = struct{}{} }

// reclassify tells the slot's classes apart anew, after its mask has grown.
func (e *Engine) reclassify(s *slotState, moved map[*client]struct{}) {
	old := s.bundles
	s.bundles = make(map[string]*bundle, len(old))
	for _, b := range old {
		b.proj = b.env.Project(s.mask)
		s.bundles[b.proj] = b
	}
	for _, b := range old {
		for c := range b.clients {
			e.place(c, s, moved)
		}
		if s.bundles[b.proj] != b && len(b.clients) == 0 {
			b.release()
		}
	}
}

// place puts c into the class of s that its view belongs to.
func (e *Engine) place(c *client, s *slotState, moved map[*client]struct{}) {
	proj := c.view.Project(s.mask)
	b := s.bundles[proj]
	was := c.bundles[s]
	if b != nil && b == was {
		return
	}
	if b == nil {
		b = newBundle(e, s, c.view, proj)
		s.bundles[proj] = b
		e.enqueue(b)
	}
	if was != nil {
		delete(was.clients, c)
		if s.named() {
			c.eachName(s, func(n string) { was.want(n, -1) })
		}
	}
	c.bundles[s] = b
	b.clients[c] = struct{}{}
	if s.named() {
		c.eachName(s, func(n string) { b.want(n, 1) })
	}
	moved[c] = struct{}{}
}

// publish makes the new states visible in one step and tells the clients they concern.
func (e *Engine) publish(changed []*bundle, moved map[*client]struct{}) {
	states := make(map[*bundle]*State, len(changed))
	for _, b := range changed {
		if s := b.next(); s != nil {
			states[b] = s
		}
	}
	tell := moved
	e.mu.Lock()
	e.published = Published{Generation: e.pc.Generation, Version: e.version}
	for b, s := range states {
		b.current.Store(s)
		for c := range b.clients {
			tell[c] = struct{}{}
		}
	}
	for c := range moved {
		e.attached[c] = c.attachment()
	}
	e.mu.Unlock()
	for c := range tell {
		c.settled()
	}
}

// report remembers or forgets that a unit could not be made.
func (e *Engine) report(b *bundle, arg any, now *built) {
	k := problemKey{b, arg}
	if now.err == nil {
		delete(e.problems, k)
		return
	}
	known := false
	for _, other := range b.slot.bundles {
		err := e.problems[problemKey{other, arg}]
		known = known || err != nil && err.Error() == now.err.Error()
	}
	if !known {
		e.log.Error("a resource cannot be made; its last good version stays in force", "slot", b.slot.Name, "unit", fmt.Sprint(arg), "error", now.err)
	}
	e.problems[k] = now.err
}

func (e *Engine) sweep() {
	for _, s := range e.slots {
		for _, b := range s.bundles {
			if len(b.clients) == 0 {
				b.release()
				delete(s.bundles, b.proj)
			}
		}
	}
	e.dropped = 0
	e.graph.Sweep()
	e.lists.sweep()
	clear(e.demanded)
}
