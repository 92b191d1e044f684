package xds

import (
	"hash/maphash"
	"iter"
	"runtime"
	"slices"
	"sort"
	"sync"
	"weak"
)

// NameSet is an immutable set of resource names. Sets made by one NameSets and equal in content are one object. A nil
// set is empty.
type NameSet struct {
	sorted []string
	key    nameSetKey
	bytes  int
}

// All yields the names in order.
func (s *NameSet) All() iter.Seq[string] {
	return func(yield func(string) bool) {
		if s == nil {
			return
		}
		for _, n := range s.sorted {
			if !yield(n) {
				return
			}
		}
	}
}

// backward yields the names in the opposite order.
func (s *NameSet) backward() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := s.Len() - 1; i >= 0; i-- {
			if !yield(s.sorted[i]) {
				return
			}
		}
	}
}

// Len returns the number of names.
func (s *NameSet) Len() int {
	if s == nil {
		return 0
	}
	return len(s.sorted)
}

// Has tells whether name is in the set.
func (s *NameSet) Has(name string) bool {
	if s == nil {
		return false
	}
	i := sort.SearchStrings(s.sorted, name)
	return i < len(s.sorted) && s.sorted[i] == name
}

// size returns the bytes of all names.
func (s *NameSet) size() int {
	if s == nil {
		return 0
	}
	return s.bytes
}

// nameSetKey tells sets apart by 128 bits of a hash with seeds of this process, so that nobody outside can make two
// sets collide.
type nameSetKey struct {
	a, b uint64
	n    int
}

// NameSets makes NameSets, so that sessions that ask for the same names share one set. It is safe for concurrent use.
type NameSets struct {
	seedA, seedB maphash.Seed
	mu           sync.Mutex
	held         map[nameSetKey]weak.Pointer[NameSet]
}

// NewNameSets returns an empty collection.
func NewNameSets() *NameSets {
	return &NameSets{seedA: maphash.MakeSeed(), seedB: maphash.MakeSeed(), held: map[nameSetKey]weak.Pointer[NameSet]{}}
}

// With returns base with the names of add in it and those of remove taken out (a name in both is out), and which names
// that really added and removed, which must not be modified.
func (c *NameSets) With(base *NameSet, add, remove []string) (next *NameSet, added, removed []string) {
	if base == nil && len(remove) == 0 {
		if s := c.find(add); s != nil {
			return s, s.sorted, nil
		}
	}
	add, remove = distinct(add), distinct(remove)
	for _, n := range remove {
		if base.Has(n) {
			removed = append(removed, n)
		}
	}
	for _, n := range add {
		if _, out := slices.BinarySearch(remove, n); !out && !base.Has(n) {
			added = append(added, n)
		}
	}
	if len(added) == 0 && len(removed) == 0 {
		return base, nil, nil
	}
	return c.intern(base, added, removed), added, removed
}

// distinct returns names sorted, each once; names stays as it is.
func distinct(names []string) []string {
	if len(names) == 0 {
		return nil
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names)
}

// Of returns the set of names.
func (c *NameSets) Of(names []string) *NameSet {
	s, _, _ := c.With(nil, names, nil)
	return s
}

// find returns the set of names if somebody has it already, as most of many proxies of a kind ask for the same. A name
// that stands twice in names is of no set.
func (c *NameSets) find(names []string) *NameSet {
	key := c.plus(nameSetKey{}, names)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held[key].Value()
}

func (c *NameSets) plus(key nameSetKey, names []string) nameSetKey {
	for _, n := range names {
		key.a, key.b, key.n = key.a+maphash.String(c.seedA, n), key.b+maphash.String(c.seedB, n), key.n+1
	}
	return key
}

func (c *NameSets) intern(base *NameSet, added, removed []string) *NameSet {
	var key nameSetKey
	if base != nil {
		key = base.key
	}
	key = c.plus(key, added)
	for _, n := range removed {
		key.a, key.b, key.n = key.a-maphash.String(c.seedA, n), key.b-maphash.String(c.seedB, n), key.n-1
	}
	if key.n == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.held[key].Value(); s != nil {
		return s
	}
	s := &NameSet{key: key, sorted: merged(base, added, removed)}
	for _, n := range s.sorted {
		s.bytes += len(n)
	}
	c.held[key] = weak.Make(s)
	runtime.AddCleanup(s, c.forget, key)
	return s
}

func merged(base *NameSet, added, removed []string) []string {
	out := make([]string, 0, base.Len()+len(added)-len(removed))
	out = append(out, added...)
	slices.Sort(out)
	if base == nil {
		return out
	}
	gone := make(map[string]struct{}, len(removed))
	for _, n := range removed {
		gone[n] = struct{}{}
	}
	for _, n := range base.sorted {
		if _, ok := gone[n]; !ok {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func (c *NameSets) forget(key nameSetKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.held[key]; ok && w.Value() == nil {
		delete(c.held, key)
	}
}

// len returns how many sets are in use or not yet collected.
func (c *NameSets) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.held)
}
