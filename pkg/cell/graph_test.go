package cell

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

const (
	leaf Kind = iota + 1
	middle
	top
)

// world is a small universe: rows with numbers, environments with two properties.
type world struct {
	rows map[Key]int
	envs []env
}

type env struct{ p [3]string }

func (e env) Project(m Mask) string {
	s := ""
	for i, v := range e.p {
		if m.Has(Prop(i)) {
			s += fmt.Sprintf("%d=%s;", i, v)
		}
	}
	return s
}

func row(i int) Key { return Key{Table: 1, Name: fmt.Sprint(i)} }

// graph defines three layers whose reads depend on what they find, as generators' reads do.
func (w *world) graph() *Graph {
	g := New()
	intEqual := func(a, b any) bool { return a == b }
	g.Define(leaf, func(rec *Recorder, id ID, e Env) any {
		i := id.Arg.(int)
		rec.Read(row(i))
		v := w.rows[row(i)]
		if v%2 == 1 { // an odd row makes the leaf look at another row and at a property
			rec.Read(row(i + 1))
			v += 10 * w.rows[row(i+1)]
			rec.Use(Prop(i % 3))
			v += 100 * len(e.(env).p[i%3])
		}
		return v / 3 // several inputs give one output, so that cut-offs happen
	}, intEqual)
	g.Define(middle, func(rec *Recorder, id ID, e Env) any {
		i := id.Arg.(int)
		sum := g.Get(rec, ID{leaf, i}, e).Value().(int)
		if sum%2 == 0 {
			sum += 7 * g.Get(rec, ID{leaf, i + 2}, e).Value().(int)
		}
		return sum
	}, intEqual)
	g.Define(top, func(rec *Recorder, id ID, e Env) any {
		sum := 0
		for i := range 3 {
			sum = 31*sum + g.Get(rec, ID{middle, i}, e).Value().(int)
		}
		rec.Read(row(9))
		if w.rows[row(9)] > 2 {
			rec.Use(2)
			sum += len(e.(env).p[2])
		}
		return sum
	}, intEqual)
	return g
}

type flag struct{ seen map[ID]bool }

func (f *flag) Suspect(id ID) { f.seen[id] = true }

// For any history of row changes the value of each cell for each environment equals the one computed from scratch, and
// whoever watches a cell is told before its value differs.
func TestIncrementalEqualsFromScratch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := &world{rows: map[Key]int{}}
		for range rapid.IntRange(1, 4).Draw(t, "envs") {
			var e env
			for i := range e.p {
				e.p[i] = rapid.SampledFrom([]string{"", "a", "bb"}).Draw(t, "p")
			}
			w.envs = append(w.envs, e)
		}
		g := w.graph()
		type watched struct {
			id    ID
			env   env
			value any
			flag  *flag
		}
		watch := map[string]*watched{}
		ids := []ID{{top, 0}, {middle, 0}, {middle, 1}, {leaf, 3}}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			var changed []Key
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				k := row(rapid.IntRange(0, 9).Draw(t, "row"))
				w.rows[k] = rapid.IntRange(0, 5).Draw(t, "value")
				changed = append(changed, k)
			}
			for _, x := range watch {
				x.flag.seen = map[ID]bool{}
			}
			g.Invalidate(changed)
			fresh := w.graph()
			for _, x := range watch {
				if now := fresh.Get(nil, x.id, x.env).Value(); now != x.value && !x.flag.seen[x.id] {
					t.Fatalf("%v changed from %v to %v and its watcher was not told", x.id, x.value, now)
				}
			}
			for range rapid.IntRange(0, 6).Draw(t, "gets") {
				id, e := rapid.SampledFrom(ids).Draw(t, "id"), rapid.SampledFrom(w.envs).Draw(t, "env")
				c := g.Get(nil, id, e)
				if want := fresh.Get(nil, id, e).Value(); c.Value() != want {
					t.Fatalf("%v for %v: %v, from scratch %v", id, e, c.Value(), want)
				}
				key := fmt.Sprint(id, e)
				x := watch[key]
				if x == nil {
					x = &watched{id: id, env: e, flag: &flag{seen: map[ID]bool{}}}
					watch[key] = x
				}
				x.value = c.Value()
				g.Watch(c, x.flag)
			}
			// A watcher asks again when told, as bundles do, until nobody is told any more.
			for again := true; again; {
				again = false
				for _, x := range watch {
					if x.flag.seen[x.id] {
						x.flag.seen, again = map[ID]bool{}, true
						c := g.Get(nil, x.id, x.env)
						x.value = c.Value()
						g.Watch(c, x.flag)
					}
				}
			}
			if rapid.Bool().Draw(t, "sweep") {
				g.Sweep()
			}
		}
	})
}

// Environments that agree on what a computation looked at share its result; those that do not, do not.
func TestSharingFollowsTheReads(t *testing.T) {
	t.Parallel()
	w := &world{rows: map[Key]int{row(0): 2}}
	g := w.graph()
	a, b := env{[3]string{"a", "", ""}}, env{[3]string{"bb", "", ""}}
	if g.Get(nil, ID{leaf, 0}, a) != g.Get(nil, ID{leaf, 0}, b) {
		t.Fatal("an even row makes the leaf read no property, yet the environments do not share it")
	}
	w.rows[row(0)] = 3
	g.Invalidate([]Key{row(0)})
	if x, y := g.Get(nil, ID{leaf, 0}, a), g.Get(nil, ID{leaf, 0}, b); x == y || x.Value() == y.Value() {
		t.Fatalf("an odd row makes the leaf read property 0, yet both environments got %v", x.Value())
	}
}

// A recomputation that gives an equal value does not reach the cells above.
func TestEqualValueStopsThere(t *testing.T) {
	t.Parallel()
	w := &world{rows: map[Key]int{row(0): 0}}
	g := w.graph()
	e := env{}
	g.Get(nil, ID{top, 0}, e)
	before := g.Stats()
	w.rows[row(0)] = 2 // 2/3 = 0, as before
	g.Invalidate([]Key{row(0)})
	g.Get(nil, ID{top, 0}, e)
	after := g.Stats()
	if after.Computed-before.Computed != 1 || after.Cutoffs-before.Cutoffs != 1 {
		t.Fatalf("computed %d cells with %d cut-offs, want 1 and 1", after.Computed-before.Computed, after.Cutoffs-before.Cutoffs)
	}
}

// TestValuesAreComparable checks that a value which cannot be compared is refused when it is computed.
func TestValuesAreComparable(t *testing.T) {
	t.Parallel()
	g := New()
	g.Define(1, func(*Recorder, ID, Env) any { return []int{1} }, nil)
	defer func() {
		if r := recover(); r == nil {
			t.Error("a slice is the value of a cell")
		}
	}()
	g.Get(nil, ID{Kind: 1}, nil)
}
