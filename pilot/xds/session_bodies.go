package xds

import (
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"time"
)

// Bounds of Bodies: what nobody used for bodiesIdle goes, and never more than bodiesMost bodies and piecesMost bytes of
// pieces are kept.
const (
	bodiesIdle = 3 * time.Second
	bodiesMost = 256
	piecesMost = 64 << 20
)

// Bodies shares what is sent between sessions: complete bodies of responses between those of one class, and the pieces
// that bodies are made of between all. It is safe for concurrent use.
type Bodies struct {
	seed maphash.Seed

	mu     sync.Mutex
	held   map[bodyKey][]*bodyEntry
	n      int // bodies held
	pieces map[pieceKey]*piece
	bytes  int // of the pieces held
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
func NewBodies() *Bodies {
	return &Bodies{seed: maphash.MakeSeed(), held: map[bodyKey][]*bodyEntry{}, pieces: map[pieceKey]*piece{}}
}

// Full returns the body with every resource of states, or with those called names if names is not nil.
func (b *Bodies) Full(now time.Time, delta bool, states []*State, names *NameSet) *Body {
	if len(states) == 0 {
		return &Body{}
	}
	if names == nil && len(states) > 1 && !overlap(states) {
		return b.joined(now, delta, states)
	}
	if names == nil && len(states) == 1 && states[0].Items.Len() < pieceLeast {
		return b.of(now, delta, members(states, nil)) // rather than hold as many as there are proxies
	}
	e := b.entry(now, keyOf(delta, states, names), states)
	e.once.Do(func() { e.body = b.of(now, delta, members(e.states, names)) })
	return e.body
}

// joined returns the body of states that have no name in common. Of their bodies the large ones are shared with proxies
// that differ in the small ones only.
func (b *Bodies) joined(now time.Time, delta bool, states []*State) *Body {
	out := &Body{}
	for i := range states {
		part := b.Full(now, delta, states[i:i+1], nil)
		out.buffers = append(out.buffers, part.buffers...)
		out.size += part.size
		out.count += part.count
	}
	return out
}

// holds tells whether there is a body of the names in states: then another session has found all of them known.
func (b *Bodies) holds(delta bool, states []*State, names *NameSet) bool {
	if len(states) == 0 || names == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.find(keyOf(delta, states, names), states) != nil
}

func (b *Bodies) entry(now time.Time, key bodyKey, states []*State) *bodyEntry {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.find(key, states); e != nil {
		e.used = now
		return e
	}
	b.makeRoom(now)
	e := &bodyEntry{states: states, used: now}
	b.held[key] = append(b.held[key], e)
	b.n++
	return e
}

func keyOf(delta bool, states []*State, names *NameSet) bodyKey {
	key := bodyKey{first: states[0], delta: delta}
	if names != nil {
		key.names = names.key
	}
	return key
}

// find returns the entry for states, nil if there is none. mu must be held.
func (b *Bodies) find(key bodyKey, states []*State) *bodyEntry {
	for _, e := range b.held[key] {
		if slices.Equal(e.states, states) {
			return e
		}
	}
	return nil
}

// makeRoom keeps the bounds. mu must be held.
func (b *Bodies) makeRoom(now time.Time) {
	if b.n >= bodiesMost || b.bytes >= piecesMost {
		b.drop(now.Add(bodiesIdle)) // all of them: rare, and simpler than an order of use
	} else {
		b.drop(now.Add(-bodiesIdle))
	}
}

// Sweep forgets what was not used lately.
func (b *Bodies) Sweep(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(now.Add(-bodiesIdle))
}

// drop forgets what was last used before t. mu must be held.
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
	for k, p := range b.pieces {
		if p.used.Before(t) {
			b.bytes -= p.size
			delete(b.pieces, k)
		}
	}
}

// members yields the resources of states, each name once, or those called names if names is not nil, with the number of
// the state.
func members(states []*State, names *NameSet) iter.Seq2[int, *Resource] {
	return func(yield func(int, *Resource) bool) {
		if names == nil {
			for i := range states {
				for r := range itemsOf(states, i) {
					if !yield(i, r) {
						return
					}
				}
			}
			return
		}
		for n := range names.All() {
			if r, _ := lookup(states, n); r != nil && !yield(0, r) {
				return
			}
		}
	}
}

// Of returns the body with exactly rs.
func (b *Bodies) Of(now time.Time, delta bool, rs []*Resource) *Body {
	return b.of(now, delta, func(yield func(int, *Resource) bool) {
		for _, r := range rs {
			if !yield(0, r) {
				return
			}
		}
	})
}
