package xds

import (
	"slices"
	"sync"
	"time"

	"github.com/mizzen-mesh/mizzen/pkg/wire"
)

// Bounds of Bodies: what nobody used for bodiesIdle goes, and never more than bodiesMost are kept.
const (
	bodiesIdle = 30 * time.Second
	bodiesMost = 256
)

// Bodies shares the complete bodies of responses between the sessions of a class. It is safe for concurrent use.
type Bodies struct {
	mu   sync.Mutex
	held map[bodyKey][]*bodyEntry
	n    int
}

// bodyKey finds candidates; the entry's states decide. Names are told apart by their hash, so that the set is not kept
// for the sake of the body.
type bodyKey struct {
	first *State
	names nameSetKey
	delta bool
}

type bodyEntry struct {
	states []*State
	once   sync.Once
	body   *Body
	used   time.Time // guarded by Bodies.mu
}

// NewBodies returns an empty collection.
func NewBodies() *Bodies { return &Bodies{held: map[bodyKey][]*bodyEntry{}} }

// Full returns the body with every resource of states, or with those called names if names is not nil.
func (b *Bodies) Full(now time.Time, delta bool, states []*State, names *NameSet) *Body {
	if len(states) == 0 {
		return &Body{}
	}
	key := bodyKey{first: states[0], delta: delta}
	if names != nil {
		key.names = names.key
	}
	e := b.entry(now, key, states)
	e.once.Do(func() { e.body = fullBody(delta, e.states, names) })
	return e.body
}

func (b *Bodies) entry(now time.Time, key bodyKey, states []*State) *bodyEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.held[key] {
		if slices.Equal(e.states, states) {
			e.used = now
			return e
		}
	}
	if b.n >= bodiesMost {
		b.drop(now.Add(bodiesIdle)) // all of them: rare, and simpler than an order of use
	} else {
		b.drop(now.Add(-bodiesIdle))
	}
	e := &bodyEntry{states: states, used: now}
	b.held[key] = append(b.held[key], e)
	b.n++
	return e
}

// drop forgets the entries last used before t.
func (b *Bodies) drop(t time.Time) {
	for k, list := range b.held {
		kept := slices.DeleteFunc(list, func(e *bodyEntry) bool { return e.used.Before(t) })
		b.n -= len(list) - len(kept)
		if len(kept) == 0 {
			delete(b.held, k)
		} else {
			b.held[k] = kept
		}
	}
}

func fullBody(delta bool, states []*State, names *NameSet) *Body {
	count := 0
	rope := wire.Sized(0)
	if names == nil && disjoint(states) {
		for _, s := range states {
			part, n := s.whole(delta)
			rope.Concat(part)
			count += n
		}
		return newBody(rope.Done(), count)
	}
	put := func(r *Resource) {
		count++
		rope.Rope(r.form(delta))
	}
	if names != nil {
		rope = wire.Sized(names.Len() + 8)
	}
	if names != nil {
		for n := range names.All() {
			if r, _ := lookup(states, n); r != nil {
				put(r)
			}
		}
		return newBody(rope.Done(), count)
	}
	for _, r := range items(states) {
		put(r)
	}
	return newBody(rope.Done(), count)
}

// disjoint tells whether no name is in two of the states, as it is unless a user makes two listeners of one name.
func disjoint(states []*State) bool {
	for i := 1; i < len(states); i++ {
		for n, r := range states[i].Items.All() {
			if r == nil {
				continue
			}
			if before, _ := lookup(states[:i], n); before != nil {
				return false
			}
		}
	}
	return true
}

// resourcesBody returns the body with exactly rs.
func resourcesBody(delta bool, rs []*Resource) *Body {
	if len(rs) == 0 {
		return &Body{}
	}
	var rope wire.Builder
	for _, r := range rs {
		rope.Rope(r.form(delta))
	}
	return newBody(rope.Done(), len(rs))
}
