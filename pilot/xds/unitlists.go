package xds

import (
	"hash/maphash"
	"slices"
	"weak"
)

// unitLists keeps one object for equal lists of units: most classes of proxies have the same. It belongs to the
// engine's goroutine.
type unitLists struct {
	seed maphash.Seed
	held map[uint64]weak.Pointer[unitList]
}

func newUnitLists() *unitLists {
	return &unitLists{seed: maphash.MakeSeed(), held: map[uint64]weak.Pointer[unitList]{}}
}

// intern returns the list of units, which is the same object as long as somebody holds it. Of two lists with one hash,
// which practically never happens, only the later is found again.
func (l *unitLists) intern(units []any) *unitList {
	var h maphash.Hash
	h.SetSeed(l.seed)
	for _, u := range units {
		maphash.WriteComparable(&h, u)
	}
	sum := h.Sum64()
	if held := l.held[sum].Value(); held != nil && (slices.Equal(held.units, units) || slices.Equal(held.units, newUnitList(units).units)) {
		return held
	}
	list := newUnitList(units)
	l.held[sum] = weak.Make(list)
	return list
}

// sweep forgets the lists that nobody holds.
func (l *unitLists) sweep() {
	for sum, w := range l.held {
		if w.Value() == nil {
			delete(l.held, sum)
		}
	}
}
