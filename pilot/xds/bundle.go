package xds

import (
	"sync/atomic"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
	"github.com/mizzen-mesh/mizzen/pkg/store"
)

// recentDeltas is how many generations a holder may be behind before its state is compared item by item.
const recentDeltas = 16

// slotState is a slot with its classes: the bundles, told apart by the properties in mask.
type slotState struct {
	*translate.Slot
	unitsKind, buildKind cell.Kind
	// mask grows as computations turn out to read more properties; it never shrinks while the process lives.
	mask    cell.Mask
	bundles map[string]*bundle // by projection on mask
}

// bundle is the resources of one slot for one class of proxies. It belongs to the engine's goroutine, but for current.
type bundle struct {
	slot *slotState
	env  *view.View // any member's view
	proj string

	units map[any]*unit
	order []any
	list  *cell.Cell // the unit list's cell, nil for slots asked for by name
	// owners tells which unit gave a name; others that gave the same name wait in rivals.
	owners map[string]any
	rivals map[string][]any

	demand  map[string]int // for slots asked for by name: how many clients want the name
	clients map[*client]struct{}

	suspects  map[any]struct{} // units whose cell may have changed
	listStale bool
	queued    bool
	engine    *Engine

	txn     *store.Txn[*Resource]
	changed map[string]struct{}
	current atomic.Pointer[State]
}

// unit is one cell of a bundle with what it gave.
type unit struct {
	cell  *cell.Cell
	built *built
	index int
}

func (s *slotState) named() bool { return s.Units == nil }

func newBundle(e *Engine, s *slotState, env *view.View, proj string) *bundle {
	b := &bundle{
		slot: s, env: env, proj: proj, engine: e,
		units: map[any]*unit{}, owners: map[string]any{}, rivals: map[string][]any{},
		clients: map[*client]struct{}{}, suspects: map[any]struct{}{}, changed: map[string]struct{}{},
		listStale: !s.named(),
	}
	if s.named() {
		b.demand = map[string]int{}
	}
	b.current.Store(&State{Slot: s.Slot})
	return b
}

// Suspect implements cell.Watcher.
func (b *bundle) Suspect(id cell.ID) {
	if id.Kind == b.slot.unitsKind {
		b.listStale = true
	} else {
		b.suspects[id.Arg] = struct{}{}
	}
	b.engine.enqueue(b)
}

// refresh brings the bundle's items up to date and reports whether a computation read a property that the slot's mask
// does not have yet.
func (b *bundle) refresh() (grown bool) {
	if b.listStale {
		b.listStale = false
		grown = b.refreshList()
	}
	for arg := range b.suspects {
		delete(b.suspects, arg)
		if u := b.units[arg]; u != nil {
			grown = b.refreshUnit(arg, u) || grown
		}
	}
	return grown
}

func (b *bundle) get(kind cell.Kind, arg any, old *cell.Cell) *cell.Cell {
	c := b.engine.graph.Get(nil, cell.ID{Kind: kind, Arg: arg}, b.env)
	if c != old {
		if old != nil {
			b.engine.graph.Unwatch(old, b)
		}
		b.engine.graph.Watch(c, b)
	}
	return c
}

func (b *bundle) grow(m cell.Mask) bool {
	if b.slot.mask|m == b.slot.mask {
		return false
	}
	b.slot.mask |= m
	return true
}

func (b *bundle) refreshList() (grown bool) {
	b.list = b.get(b.slot.unitsKind, nil, b.list)
	grown = b.grow(b.list.Mask())
	list := b.list.Value().(*unitList).units
	seen := make(map[any]struct{}, len(list))
	for i, arg := range list {
		if _, twice := seen[arg]; twice {
			continue
		}
		seen[arg] = struct{}{}
		u := b.units[arg]
		if u == nil {
			u = &unit{}
			b.units[arg] = u
			b.suspects[arg] = struct{}{}
		}
		u.index = i
	}
	for arg, u := range b.units {
		if _, ok := seen[arg]; !ok {
			b.dropUnit(arg, u)
		}
	}
	return grown
}

func (b *bundle) refreshUnit(arg any, u *unit) (grown bool) {
	u.cell = b.get(b.slot.buildKind, arg, u.cell)
	grown = b.grow(u.cell.Mask())
	now := u.cell.Value().(*built)
	if now == u.built {
		return grown
	}
	if now.err != nil && u.built != nil && u.built.err == nil {
		b.engine.report(b.slot, arg, now)
		return grown // the last good resources stay in force
	}
	before := u.built
	u.built = now
	b.engine.report(b.slot, arg, now)
	names := make(map[string]struct{}, len(now.resources))
	for _, r := range now.resources {
		names[r.Name] = struct{}{}
		b.put(arg, r)
	}
	if before != nil {
		for _, r := range before.resources {
			if _, ok := names[r.Name]; !ok {
				b.take(arg, r.Name)
			}
		}
	}
	if name, ok := arg.(string); ok && b.slot.named() && len(now.resources) == 0 {
		b.set(name, nil)
	}
	return grown
}

func (b *bundle) dropUnit(arg any, u *unit) {
	if u.cell != nil {
		b.engine.graph.Unwatch(u.cell, b)
	}
	delete(b.units, arg)
	delete(b.suspects, arg)
	if u.built != nil {
		for _, r := range u.built.resources {
			b.take(arg, r.Name)
		}
	}
	if name, ok := arg.(string); ok && b.slot.named() {
		b.unset(name)
	}
}

// put makes r the item of its name, unless an earlier unit gave one of the same name.
func (b *bundle) put(arg any, r *Resource) {
	owner, taken := b.owners[r.Name]
	if taken && owner != arg {
		first, second := b.units[owner], b.units[arg]
		if first != nil && second != nil && first.index <= second.index {
			b.addRival(r.Name, arg)
			return
		}
		b.addRival(r.Name, owner)
	}
	b.owners[r.Name] = arg
	b.set(r.Name, r)
}

func (b *bundle) addRival(name string, arg any) {
	for _, a := range b.rivals[name] {
		if a == arg {
			return
		}
	}
	b.rivals[name] = append(b.rivals[name], arg)
}

// take withdraws arg's item called name and lets a rival of that name step in.
func (b *bundle) take(arg any, name string) {
	if b.owners[name] != arg {
		return
	}
	delete(b.owners, name)
	rivals := b.rivals[name]
	delete(b.rivals, name)
	for _, a := range rivals {
		u := b.units[a]
		if u == nil || u.built == nil {
			continue
		}
		for _, r := range u.built.resources {
			if r.Name == name {
				b.put(a, r)
			}
		}
	}
	if _, ok := b.owners[name]; !ok {
		b.unset(name)
	}
}

func (b *bundle) write() *store.Txn[*Resource] {
	if b.txn == nil {
		b.txn = b.current.Load().Items.Txn()
	}
	return b.txn
}

func (b *bundle) set(name string, r *Resource) {
	old, had := b.write().Set(name, r)
	if !had || old != r {
		b.changed[name] = struct{}{}
	}
}

func (b *bundle) unset(name string) {
	if _, had := b.write().Delete(name); had {
		b.changed[name] = struct{}{}
	}
}

// next returns the state to publish, or nil if nothing changed.
func (b *bundle) next() *State {
	if len(b.changed) == 0 {
		b.txn = nil
		return nil
	}
	cur := b.current.Load()
	d := Delta{Gen: cur.Gen + 1, Names: make([]string, 0, len(b.changed))}
	for n := range b.changed {
		d.Names = append(d.Names, n)
	}
	recent := cur.Recent
	if len(recent) >= recentDeltas {
		recent = recent[len(recent)-recentDeltas+1:]
	}
	s := &State{Slot: b.slot.Slot, Gen: d.Gen, Items: b.txn.Commit(), Recent: append(recent[:len(recent):len(recent)], d)}
	b.txn = nil
	b.changed = map[string]struct{}{}
	return s
}

// want adds n clients' wish for a name.
func (b *bundle) want(name string, n int) {
	b.demand[name] += n
	if b.demand[name] <= 0 {
		delete(b.demand, name)
		if u := b.units[name]; u != nil {
			b.dropUnit(name, u)
			b.engine.enqueue(b)
		}
		return
	}
	if b.units[name] == nil {
		b.units[name] = &unit{}
		b.suspects[name] = struct{}{}
		b.engine.enqueue(b)
	}
}

// release lets go of everything the bundle watches.
func (b *bundle) release() {
	if b.list != nil {
		b.engine.graph.Unwatch(b.list, b)
	}
	for _, u := range b.units {
		if u.cell != nil {
			b.engine.graph.Unwatch(u.cell, b)
		}
	}
}
