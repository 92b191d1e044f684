package cell

import (
	"fmt"
	"reflect"
	"slices"
)

// Kind numbers a computation.
type Kind uint16

// ID names a cell: which computation, of what. Arg must be comparable.
//
// Values are compared by ==, so a kind whose values are not comparable types must return pointers.
type ID struct {
	Kind Kind
	Arg  any
}

// Compute makes the value of the cell id for env, noting its reads in rec. It must be pure.
type Compute func(rec *Recorder, id ID, env Env) any

// Equal tells whether two values of a kind are interchangeable for everybody who reads them.
type Equal func(a, b any) bool

type state uint8

const (
	clean   state = iota
	suspect       // a cell below may have changed
	dirty         // a row it read has changed
)

// Cell is one value with the reads that made it.
type Cell struct {
	id       ID
	value    any
	mask     Mask
	proj     string
	reads    []Key
	children []child
	parents  set[*Cell]
	watchers set[Watcher]
	state    state
	gone     bool
}

// ID returns the cell's name.
func (c *Cell) ID() ID { return c.id }

// Value returns the cell's value as last computed.
func (c *Cell) Value() any { return c.value }

// Reads returns the rows the value was made from, of this cell alone. The slice must not be modified.
func (c *Cell) Reads() []Key { return c.reads }

// Mask returns the properties the value depends on, those of the cells below included.
func (c *Cell) Mask() Mask { return c.mask }

// Watcher is told which of the cells it watches may have changed. It must be comparable.
type Watcher interface {
	Suspect(id ID)
}

type kindSpec struct {
	compute Compute
	equal   Equal
}

// Stats counts a graph's work since its creation, and its present size.
type Stats struct {
	Cells    int // variants held
	Keys     int // rows with at least one reader
	Computed int // computations run
	Cutoffs  int // computations that gave an equal value
	Hits     int // lookups answered without computing
}

// Graph holds cells. Create it with New; it belongs to one goroutine.
type Graph struct {
	kinds   map[Kind]kindSpec
	entries map[ID]*entry
	readers map[Key]*set[*Cell]
	stats   Stats
}

// New returns an empty graph.
func New() *Graph {
	return &Graph{
		kinds:   map[Kind]kindSpec{},
		entries: map[ID]*entry{},
		readers: map[Key]*set[*Cell]{},
	}
}

// Define says how cells of kind k are computed. A nil equal means reflect.DeepEqual.
func (g *Graph) Define(k Kind, compute Compute, equal Equal) {
	if equal == nil {
		equal = reflect.DeepEqual
	}
	g.kinds[k] = kindSpec{compute, equal}
}

// Stats returns the counters.
func (g *Graph) Stats() Stats {
	s := g.stats
	s.Keys = len(g.readers)
	return s
}

// Get returns the cell id for env, up to date. When rec is not nil the caller becomes a dependent of it.
func (g *Graph) Get(rec *Recorder, id ID, env Env) *Cell {
	c := g.lookup(id, env)
	switch {
	case c == nil:
		c = g.run(id, env, nil)
	case c.state == dirty:
		c = g.run(id, env, c)
	case c.state == suspect:
		c = g.verify(c, env)
	default:
		g.stats.Hits++
	}
	if rec != nil {
		rec.mask |= c.mask
		rec.children = append(rec.children, child{c, c.value})
	}
	return c
}

func (g *Graph) lookup(id ID, env Env) *Cell {
	e := g.entries[id]
	if e == nil {
		return nil
	}
	for _, m := range e.masks {
		if c := e.get(m, env.Project(m)); c != nil {
			return c
		}
	}
	return nil
}

// verify brings the cells below c up to date and recomputes c only if one of them gave another value.
func (g *Graph) verify(c *Cell, env Env) *Cell {
	for _, ch := range c.children {
		if now := g.Get(nil, ch.cell.id, env); now != ch.cell || now.value != ch.value {
			return g.run(c.id, env, c)
		}
	}
	c.state = clean
	g.stats.Hits++
	return c
}

// run computes id for env and stores the result, taking the place of old.
func (g *Graph) run(id ID, env Env, old *Cell) *Cell {
	spec, ok := g.kinds[id.Kind]
	if !ok {
		panic("cell: kind was never defined")
	}
	rec := &Recorder{}
	value := spec.compute(rec, id, env)
	if value != nil && !reflect.TypeOf(value).Comparable() {
		// Said at once, by who is computed: the comparison itself would fail much later, by who is verified.
		panic(fmt.Sprintf("cell: the value of a cell of kind %d is a %T, which cannot be compared", id.Kind, value))
	}
	g.stats.Computed++
	if old != nil && !old.gone && spec.equal(old.value, value) {
		g.stats.Cutoffs++
		value = old.value
	}
	c := &Cell{id: id}
	if old != nil && !old.gone {
		g.unlink(old)
		if old.mask == rec.mask {
			c = old // keeps identity, so that parents which verify see the same cell
		} else {
			g.remove(old)
		}
	}
	g.link(c, rec, value, env)
	return c
}

func (g *Graph) link(c *Cell, rec *Recorder, value any, env Env) {
	c.value, c.mask, c.proj, c.state, c.children = value, rec.mask, env.Project(rec.mask), clean, rec.distinctChildren()
	c.reads = rec.distinctReads()
	for _, k := range c.reads {
		readers := g.readers[k]
		if readers == nil {
			readers = &set[*Cell]{}
			g.readers[k] = readers
		}
		readers.add(c)
	}
	for _, ch := range c.children {
		ch.cell.parents.add(c)
	}
	g.insert(c)
}

func (g *Graph) insert(c *Cell) {
	e := g.entries[c.id]
	if e == nil {
		e = &entry{}
		g.entries[c.id] = e
	}
	if prev := e.get(c.mask, c.proj); prev == c {
		return
	} else if prev != nil {
		g.unlink(prev)
		g.remove(prev)
		g.insert(c)
		return
	}
	e.put(c)
	g.stats.Cells++
}

// unlink takes c out of the indexes of what it read.
func (g *Graph) unlink(c *Cell) {
	for _, k := range c.reads {
		if readers := g.readers[k]; readers != nil {
			readers.remove(c)
			if readers.len() == 0 {
				delete(g.readers, k)
			}
		}
	}
	for _, ch := range c.children {
		ch.cell.parents.remove(c)
	}
	c.reads, c.children = nil, nil
}

// remove drops c from its entry, and tells everybody above that it must be asked for again.
func (g *Graph) remove(c *Cell) {
	c.gone, c.state = true, dirty
	g.notify(c)
	g.suspectParents(c)
	e := g.entries[c.id]
	if e == nil || e.get(c.mask, c.proj) != c {
		return
	}
	e.drop(c)
	g.stats.Cells--
	if e.len() == 0 {
		delete(g.entries, c.id)
	}
}

// Invalidate makes every cell that read one of keys suspect, and tells the watchers of it and of all above it.
func (g *Graph) Invalidate(keys []Key) {
	for _, k := range keys {
		readers := g.readers[k]
		if readers == nil {
			continue
		}
		for c := range readers.all() {
			if c.state == dirty {
				continue
			}
			was := c.state
			c.state = dirty
			g.notify(c)
			if was == clean {
				g.suspectParents(c)
			}
		}
	}
}

func (g *Graph) suspectParents(c *Cell) {
	for p := range c.parents.all() {
		if p.state != clean {
			continue
		}
		p.state = suspect
		g.notify(p)
		g.suspectParents(p)
	}
}

func (g *Graph) notify(c *Cell) {
	for w := range c.watchers.all() {
		w.Suspect(c.id)
	}
}

// Watch has w told whenever c may have changed. A watched cell, and what is below it, is kept by Sweep.
func (g *Graph) Watch(c *Cell, w Watcher) {
	c.watchers.add(w)
}

// Unwatch takes back Watch.
func (g *Graph) Unwatch(c *Cell, w Watcher) { c.watchers.remove(w) }

// Readers returns the cells that read k.
func (g *Graph) Readers(k Key) []*Cell {
	if readers := g.readers[k]; readers != nil {
		return slices.Collect(readers.all())
	}
	return nil
}

// Parents returns the cells that were made from c.
func (g *Graph) Parents(c *Cell) []*Cell { return slices.Collect(c.parents.all()) }

// AllReads returns the rows c was made from, those of the cells below included.
func (c *Cell) AllReads() []Key {
	seen, cells := map[Key]struct{}{}, map[*Cell]struct{}{}
	var walk func(*Cell)
	walk = func(x *Cell) {
		if _, ok := cells[x]; ok {
			return
		}
		cells[x] = struct{}{}
		for _, k := range x.reads {
			seen[k] = struct{}{}
		}
		for _, ch := range x.children {
			walk(ch.cell)
		}
	}
	walk(c)
	out := make([]Key, 0, len(seen))
	for k := range seen {
		out = append(out, k)
	}
	return out
}

// Sweep drops every cell that is neither watched nor below a watched one, and returns how many went.
func (g *Graph) Sweep() int {
	keep := map[*Cell]struct{}{}
	var mark func(*Cell)
	mark = func(c *Cell) {
		if _, ok := keep[c]; ok {
			return
		}
		keep[c] = struct{}{}
		for _, ch := range c.children {
			mark(ch.cell)
		}
	}
	var all []*Cell
	for _, e := range g.entries {
		for c := range e.all() {
			all = append(all, c)
			if c.watchers.len() > 0 {
				mark(c)
			}
		}
	}
	n := 0
	for _, c := range all {
		if _, ok := keep[c]; !ok {
			g.unlink(c)
			g.remove(c)
			n++
		}
	}
	return n
}
