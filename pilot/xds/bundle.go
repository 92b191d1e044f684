package xds

import (
	"maps"
	"slices"
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

	// Of a slot with a list: its units in the list's order, and the list's cell.
	list  *cell.Cell
	order *unitList
	units []unit
	// Of a slot asked for by name: its units by name.
	asked map[string]*unit
	// unbuilt are the names asked for that no unit was built for yet.
	unbuilt []string

	// contested has the units that give the same name, for the names that several give.
	contested map[string][]any

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
	// demand is, in slots asked for by name, how many clients want it.
	demand int32
}

func (s *slotState) named() bool { return s.Units == nil }

func newBundle(e *Engine, s *slotState, env *view.View, proj string) *bundle {
	b := &bundle{
		slot: s, env: env, proj: proj, engine: e, order: &unitList{}, clients: map[*client]struct{}{}, suspects: map[any]struct{}{},
		changed: map[string]struct{}{}, listStale: !s.named(),
	}
	if s.named() {
		b.asked = map[string]*unit{}
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

// unit returns the unit of arg, nil if the bundle has none. It is valid until the list changes.
func (b *bundle) unit(arg any) *unit {
	if b.slot.named() {
		name, _ := arg.(string)
		return b.asked[name]
	}
	if i, ok := b.order.at[arg]; ok {
		return &b.units[i]
	}
	return nil
}

// each yields all units.
func (b *bundle) each(yield func(arg any, u *unit) bool) {
	for i := range b.units {
		if !yield(b.order.units[i], &b.units[i]) {
			return
		}
	}
	for n, u := range b.asked {
		if !yield(n, u) {
			return
		}
	}
}

// refresh brings the bundle's items up to date and reports whether a computation read a property that the slot's mask
// does not have yet.
func (b *bundle) refresh() (grown bool) {
	if b.listStale {
		b.listStale = false
		grown = b.refreshList()
	}
	suspects := b.suspects
	b.suspects = map[any]struct{}{}
	for arg := range suspects {
		if u := b.unit(arg); u != nil {
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
	list := b.list.Value().(*unitList)
	if list == b.order {
		return grown
	}
	before, units := b.order, b.units
	b.order, b.units = list, make([]unit, len(list.units))
	for i, arg := range list.units {
		if was, ok := before.at[arg]; ok {
			b.units[i] = units[was]
		} else {
			b.suspects[arg] = struct{}{}
		}
	}
	for i, arg := range before.units {
		if _, ok := list.at[arg]; !ok {
			b.dropUnit(arg, &units[i])
		}
	}
	for name := range b.contested { // who comes first may have changed
		b.elect(name)
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
	before := u.built
	now = now.after(before) // the last good resources stay in force
	u.built = now
	b.engine.report(b, arg, now)
	for _, r := range now.resources {
		b.put(arg, r, before.named(r.Name) != nil)
	}
	if before != nil {
		for _, r := range before.resources {
			if now.named(r.Name) == nil {
				b.take(arg, r.Name)
			}
		}
	}
	if name, ok := arg.(string); ok && b.slot.named() && len(now.resources) == 0 {
		b.set(name, nil)
	}
	return grown
}

// dropUnit takes out what u gave, after it has left the units.
func (b *bundle) dropUnit(arg any, u *unit) {
	if u.cell != nil {
		b.engine.graph.Unwatch(u.cell, b)
	}
	delete(b.suspects, arg)
	delete(b.engine.problems, problemKey{b, arg})
	if u.built != nil {
		for _, r := range u.built.resources {
			b.take(arg, r.Name)
		}
	}
	if name, ok := arg.(string); ok && b.slot.named() {
		b.unset(name)
	}
}

// put makes r, which the unit arg gives, the item of its name, unless an earlier unit gives one of the same name. had
// tells that the unit gave one of that name before.
func (b *bundle) put(arg any, r *Resource, had bool) {
	if claims, ok := b.contested[r.Name]; ok {
		if !slices.Contains(claims, arg) {
			b.contested[r.Name] = append(claims, arg)
		}
		b.elect(r.Name)
		return
	}
	if other, _ := b.write().Get(r.Name); had || other == nil {
		b.set(r.Name, r)
		return
	}
	claims := []any{arg}
	b.each(func(a any, u *unit) bool {
		if a != arg && u.built.named(r.Name) != nil {
			claims = append(claims, a)
		}
		return true
	})
	if len(claims) > 1 {
		if b.contested == nil {
			b.contested = map[string][]any{}
		}
		b.contested[r.Name] = claims
	}
	b.elect(r.Name)
	if len(claims) == 1 {
		b.set(r.Name, r)
	}
}

// take withdraws arg's item called name and lets another unit that gives the name step in.
func (b *bundle) take(arg any, name string) {
	claims, ok := b.contested[name]
	if !ok {
		b.unset(name)
		return
	}
	claims = slices.DeleteFunc(claims, func(a any) bool { return a == arg })
	b.contested[name] = claims
	b.elect(name)
	if len(claims) == 1 {
		delete(b.contested, name)
	}
}

// elect makes the resource of the first unit that gives a contested name its item.
func (b *bundle) elect(name string) {
	var first *Resource
	var giver any
	for _, arg := range b.contested[name] {
		u := b.unit(arg)
		if u == nil {
			continue
		}
		if r := u.built.named(name); r != nil && (first == nil || b.precedes(arg, giver)) {
			first, giver = r, arg
		}
	}
	if first != nil {
		b.set(name, first)
	}
}

// precedes tells whether the unit x comes before y: in the list's order, or in the order of the names asked for.
func (b *bundle) precedes(x, y any) bool {
	if b.slot.named() {
		one, _ := x.(string)
		other, _ := y.(string)
		return one < other
	}
	return b.order.at[x] < b.order.at[y]
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
	d := &Delta{Gen: cur.Gen + 1}
	s := &State{Slot: b.slot.Slot, Gen: d.Gen, Items: b.txn.Commit(), Recent: []*Delta{d}}
	if cur.Gen > 0 && len(b.changed) <= max(s.Items.Len()/2, 64) {
		d.Names = slices.Collect(maps.Keys(b.changed))
		recent := cur.Recent
		if len(recent) >= recentDeltas {
			recent = recent[len(recent)-recentDeltas+1:]
		}
		s.Recent = append(recent[:len(recent):len(recent)], d)
	}
	b.txn = nil
	b.changed = map[string]struct{}{}
	return s
}

// release lets go of everything the bundle watches.
func (b *bundle) release() {
	if b.list != nil {
		b.engine.graph.Unwatch(b.list, b)
	}
	b.each(func(arg any, u *unit) bool {
		if u.cell != nil {
			b.engine.graph.Unwatch(u.cell, b)
		}
		delete(b.engine.problems, problemKey{b, arg})
		return true
	})
}
