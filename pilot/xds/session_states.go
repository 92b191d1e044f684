package xds

import (
	"iter"
	"slices"
)

// lookup returns the resource called name; of slots that give the same name, the first has it. known is false if a slot
// says nothing about the name, which in slots asked for by name means that the engine has not come to it yet.
func lookup(states []*State, name string) (r *Resource, known bool) {
	known = len(states) > 0
	for _, s := range states {
		r, ok := s.Items.Get(name)
		if r != nil {
			return r, true
		}
		known = known && ok
	}
	return nil, known
}

// items yields every resource of states once, slot after slot in name order.
func items(states []*State) iter.Seq2[string, *Resource] {
	return func(yield func(string, *Resource) bool) {
		for i := range states {
			for r := range itemsOf(states, i) {
				if !yield(r.Name, r) {
					return
				}
			}
		}
	}
}

// overlap tells whether two of states have a name in common.
func overlap(states []*State) bool {
	for i, x := range states {
		for _, y := range states[:i] {
			few, many := x.Items, y.Items
			if few.Len() > many.Len() {
				few, many = many, few
			}
			for n := range few.All() {
				if _, has := many.Get(n); has {
					return true
				}
			}
		}
	}
	return false
}

// itemsOf yields the resources of states[i] whose names no earlier state has.
func itemsOf(states []*State, i int) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		for r := range states[i].Items.Values() {
			if r == nil {
				continue
			}
			if before, _ := lookup(states[:i], r.Name); before == nil && !yield(r) {
				return
			}
		}
	}
}

// changed yields the names that may differ between old and now, each once.
func changed(old, now []*State) iter.Seq[string] {
	return func(yield func(string) bool) {
		if changes(old, now) > 1 {
			yield = once(yield)
		}
		for _, s := range now {
			prev := ofSlot(old, s)
			if prev == s {
				continue
			}
			if !changedInSlot(prev, s, yield) {
				return
			}
		}
		for _, s := range old {
			if ofSlot(now, s) != nil {
				continue
			}
			for n := range s.Items.All() {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// changes returns how many lists changed goes through, in each of which a name stands once.
func changes(old, now []*State) (n int) {
	for _, s := range now {
		prev := ofSlot(old, s)
		if prev == s {
			continue
		}
		n++
		if prev == nil {
			continue
		}
		if deltas, ok := since(prev, s); ok {
			n += len(deltas) - 1
		}
	}
	for _, s := range old {
		if ofSlot(now, s) == nil {
			n++
		}
	}
	return n
}

// once passes each name on the first time.
func once(yield func(string) bool) func(string) bool {
	seen := map[string]struct{}{}
	return func(n string) bool {
		if _, again := seen[n]; again {
			return true
		}
		seen[n] = struct{}{}
		return yield(n)
	}
}

func ofSlot(states []*State, s *State) *State {
	for _, o := range states {
		if o.Slot == s.Slot {
			return o
		}
	}
	return nil
}

func changedInSlot(prev, s *State, yield func(string) bool) bool {
	if prev == nil {
		prev = &State{}
	}
	if deltas, ok := since(prev, s); ok {
		for _, d := range deltas {
			for _, n := range d.Names {
				if !yield(n) {
					return false
				}
			}
		}
		return true
	}
	for n, r := range s.Items.All() {
		if was, had := prev.Items.Get(n); had && was == r {
			continue
		}
		if !yield(n) {
			return false
		}
	}
	for n := range prev.Items.All() {
		if _, has := s.Items.Get(n); !has && !yield(n) {
			return false
		}
	}
	return true
}

// since returns the deltas that lead from prev to s, if s descends from prev and still knows them. A proxy that moves
// to another class gets states of another bundle, whose deltas are other objects.
func since(prev, s *State) ([]*Delta, bool) {
	if len(prev.Recent) == 0 {
		return nil, false
	}
	i := slices.Index(s.Recent, prev.Recent[len(prev.Recent)-1])
	if i < 0 {
		return nil, false
	}
	return s.Recent[i+1:], true
}
