package xds

import (
	"maps"
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNameSets: a set is what a map would be, and equal sets are one object.
func TestNameSets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := NewNameSets()
		var s *NameSet
		want := map[string]bool{}
		names := rapid.SliceOfN(rapid.StringMatching(`[a-f]?`), 0, 6)
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			add, remove := names.Draw(t, "add"), names.Draw(t, "remove")
			next, added, removed := c.With(s, add, remove)
			for _, n := range added {
				if want[n] {
					t.Fatalf("%q was there", n)
				}
				want[n] = true
			}
			for _, n := range removed {
				if !want[n] {
					t.Fatalf("%q was not there", n)
				}
				delete(want, n)
			}
			for _, n := range add {
				if want[n] == slices.Contains(remove, n) {
					t.Fatalf("added %q: %v", n, want[n])
				}
			}
			s = next
			all := slices.Sorted(maps.Keys(want))
			if got := slices.Collect(s.All()); !slices.Equal(got, all) || s.Len() != len(all) {
				t.Fatalf("got %v, want %v", got, all)
			}
			if other := c.Of(all); other != s {
				t.Fatalf("equal sets are two objects: %v %v", other, s)
			}
			for _, n := range []string{"a", "b", "c", "d", "e", "f", ""} {
				if s.Has(n) != want[n] {
					t.Fatalf("Has(%q) = %v", n, s.Has(n))
				}
			}
		}
	})
}

func TestNameSetsAreCollected(t *testing.T) {
	t.Parallel()
	c := NewNameSets()
	s := c.Of([]string{"a", "b"})
	if c.len() != 1 || s.size() != 2 {
		t.Fatalf("%d sets, size %d", c.len(), s.size())
	}
	runtime.KeepAlive(s)
	eventually(t, "the set is collected", func() bool { runtime.GC(); return c.len() == 0 })
}
