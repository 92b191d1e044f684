package cell

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// A set holds what a map of the same history holds, small or large.
func TestSetIsAMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var s set[int]
		want := map[int]struct{}{}
		most := rapid.SampledFrom([]int{4, setFew, 4 * setFew}).Draw(t, "most")
		for _, v := range rapid.SliceOfN(rapid.IntRange(-most, most), 0, 6*setFew).Draw(t, "steps") {
			if v < 0 {
				s.remove(-v)
				delete(want, -v)
			} else {
				s.add(v)
				want[v] = struct{}{}
			}
			if s.len() != len(want) {
				t.Fatalf("%d elements, want %d", s.len(), len(want))
			}
		}
		if got := slices.Sorted(s.all()); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

// An entry finds each of its variants, few or many, and forgets a mask with its last variant.
func TestEntryFindsItsVariants(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var e entry
		want := map[variantKey]*Cell{}
		n := rapid.SampledFrom([]int{3, 3 * setFew}).Draw(t, "variants")
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, n), 0, 6*setFew).Draw(t, "steps") {
			k := variantKey{Mask(i % 3), strconv.Itoa(i)}
			if c := want[k]; c != nil {
				e.drop(c)
				delete(want, k)
				continue
			}
			want[k] = &Cell{mask: k.mask, proj: k.proj}
			e.put(want[k])
		}
		masks := map[Mask]bool{}
		for k, c := range want {
			masks[k.mask] = true
			if e.get(k.mask, k.proj) != c {
				t.Fatalf("%v is lost", k)
			}
		}
		if e.len() != len(want) || len(slices.Collect(e.all())) != len(want) || len(e.masks) != len(masks) {
			t.Fatalf("%d variants of masks %v, want %d of %v", e.len(), e.masks, len(want), masks)
		}
	})
}

// A computation that reads much has each read once, in the order of the first.
func TestReadsAreDistinct(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var r Recorder
		var keys []Key
		var cells []*Cell
		pool := make([]*Cell, 3*setFew)
		for i := range pool {
			pool[i] = &Cell{}
		}
		for _, i := range rapid.SliceOfN(rapid.IntRange(0, len(pool)-1), 0, 6*setFew).Draw(t, "reads") {
			k := Key{Name: strconv.Itoa(i)}
			r.Read(k)
			r.children = append(r.children, child{cell: pool[i]})
			if !slices.Contains(keys, k) {
				keys, cells = append(keys, k), append(cells, pool[i])
			}
		}
		if got := r.distinctReads(); !slices.Equal(got, keys) {
			t.Fatalf("reads %v, want %v", got, keys)
		}
		var got []*Cell
		for _, ch := range r.distinctChildren() {
			got = append(got, ch.cell)
		}
		if !slices.Equal(got, cells) {
			t.Fatalf("%d children, want %d", len(got), len(cells))
		}
	})
}
