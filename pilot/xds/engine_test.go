package xds

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	mesh "istio.io/api/mesh/v1alpha1"
	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// The toy mesh: an order of units, and what each unit gives, as rows.
const (
	toyTable cell.Table = 900
	toyList  cell.Kind  = 900
	toyUnit  cell.Kind  = 901
)

// toyRows is the toy mesh's state; "" is the row of the unit list.
type toyRows map[string][]string

// slots returns a slot with a list and one asked for by name. A unit gives one cluster for each word of its row; the
// cluster's metadata tells which unit made it. Rows that begin with "!" cannot be made.
func (w toyRows) slots() []*translate.Slot {
	build := func(c *view.Context, unit any) ([]*translate.Message, error) {
		name, _ := unit.(string)
		words, _ := c.Cell(cell.ID{Kind: toyUnit, Arg: name}).(string)
		var out []*translate.Message
		for _, word := range strings.Fields(words) {
			if word == "!" {
				return nil, fmt.Errorf("row %s is bad", name)
			}
			out = append(out, &translate.Message{Name: word, Proto: &clusterv3.Cluster{Name: word, AltStatName: name}})
		}
		return out, nil
	}
	return []*translate.Slot{
		{Name: "list", TypeURL: translate.ClusterType, Build: build, Units: func(c *view.Context) []any {
			var out []any
			words, _ := c.Cell(cell.ID{Kind: toyList, Arg: ""}).(string)
			for _, n := range strings.Fields(words) {
				out = append(out, n)
			}
			return out
		}},
		{Name: "named", TypeURL: translate.EndpointType, Build: func(c *view.Context, unit any) ([]*translate.Message, error) {
			out, err := build(c, unit)
			return slices.DeleteFunc(out, func(m *translate.Message) bool { return m.Name != unit }), err
		}},
	}
}

func (w toyRows) engine() *Engine {
	read := func(rec *cell.Recorder, id cell.ID, _ cell.Env) any {
		name, _ := id.Arg.(string)
		rec.Read(cell.Key{Table: toyTable, Name: name})
		return strings.Join(w[name], " ")
	}
	return NewEngine(slog.New(slog.DiscardHandler), w.slots(), func(g *cell.Graph, _ func() *model.PushContext) {
		g.Define(toyList, read, nil)
		g.Define(toyUnit, read, nil)
	})
}

// toyClient attaches a client to an engine that the test's goroutine runs.
func toyClient(e *Engine, names *NameSet) *Client {
	p, err := view.ParseNode(&corev3.Node{Id: "sidecar~10.0.0.1~a.b~b.svc.cluster.local"}, view.NodeDefaults{})
	if err != nil {
		panic(err)
	}
	c, err := e.Attach(p, func() {})
	if err != nil {
		panic(err)
	}
	c.Use(translate.ClusterType)
	c.Demand(translate.EndpointType, names)
	e.drain()
	return c
}

func toyContext() *model.PushContext {
	m := &model.Mesh{Config: &mesh.MeshConfig{RootNamespace: "istio-system"}}
	pc, _ := model.NewBuilder(model.DefaultSettings(), m).Apply(nil, m)
	return pc
}

func held(c *Client) string {
	var out []string
	for typ, states := range c.Published().Types {
		for i := range states {
			for n, r := range states[i].Items.All() {
				if r == nil {
					out = append(out, fmt.Sprintf("%s %s: none", shortType(typ), n))
					continue
				}
				out = append(out, fmt.Sprintf("%s %s: %x", shortType(typ), n, r.Body.Flat()))
			}
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// For any history of lists and units that give overlapping names, what an engine holds in the end is what an engine that
// starts with the last rows holds, and the first unit of the list wins a contested name.
func TestEngineIncrementalIsFromScratch(t *testing.T) {
	t.Parallel()
	pc := toyContext()
	names := NewNameSets().Of([]string{"a", "b", "c", "x"})
	unit := rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	word := rapid.SampledFrom([]string{"a", "b", "c", "x", "y"})
	rapid.Check(t, func(t *rapid.T) {
		w := toyRows{"": {"a", "b"}, "a": {"a", "x"}, "b": {"b", "x"}}
		e := w.engine()
		commit := func(e *Engine, changed ...string) {
			var keys []cell.Key
			for _, n := range changed {
				keys = append(keys, cell.Key{Table: toyTable, Name: n})
			}
			if err := e.Commit(pc, keys, "v", nil); err != nil {
				t.Fatal(err)
			}
			e.drain()
			e.settle()
		}
		c := toyClient(e, names)
		commit(e)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			switch rapid.IntRange(0, 2).Draw(t, "step") {
			case 0:
				w[""] = rapid.SliceOfN(unit, 0, 5).Draw(t, "list")
				commit(e, "")
			case 1:
				n := unit.Draw(t, "unit")
				w[n] = distinct(rapid.SliceOfN(word, 0, 4).Draw(t, "words"))
				commit(e, n)
			default:
				n := unit.Draw(t, "unit")
				w[n], w[""] = distinct(rapid.SliceOfN(word, 0, 4).Draw(t, "words")), rapid.SliceOfN(unit, 0, 5).Draw(t, "list")
				commit(e, "", n)
			}
		}
		fresh := maps.Clone(w).engine()
		f := toyClient(fresh, names)
		commit(fresh)
		if got, want := held(c), held(f); got != want {
			t.Fatalf("incremental:\n%s\nfrom scratch:\n%s\nrows %v", got, want, w)
		}
	})
}

// A unit that can no longer be made keeps what it gave, is reported, and harms no other.
func TestBadUnitKeepsItsLastGood(t *testing.T) {
	t.Parallel()
	w := toyRows{"": {"a", "b"}, "a": {"a"}, "b": {"b"}}
	e := w.engine()
	c := toyClient(e, nil)
	step := func(keys ...cell.Key) {
		if err := e.Commit(toyContext(), keys, "v", nil); err != nil {
			t.Fatal(err)
		}
		e.drain()
		e.settle()
	}
	step()
	before := held(c)
	w["a"], w["b"] = []string{"!"}, []string{"b", "y"}
	step(cell.Key{Table: toyTable, Name: "a"}, cell.Key{Table: toyTable, Name: "b"})
	if after := held(c); !strings.HasPrefix(after, strings.Split(before, "\n")[0]) || !strings.Contains(after, "cds y") || len(e.problems) != 1 {
		t.Errorf("before:\n%s\nafter:\n%s\nproblems %v", before, after, e.problems)
	}
	w["a"] = []string{"a"}
	step(cell.Key{Table: toyTable, Name: "a"})
	if len(e.problems) != 0 {
		t.Errorf("a mended unit is still reported: %v", e.problems)
	}
	w["a"] = []string{"!"}
	step(cell.Key{Table: toyTable, Name: "a"})
	w[""] = []string{"b"}
	step(cell.Key{Table: toyTable, Name: ""})
	if len(e.problems) != 0 {
		t.Errorf("a unit that is gone is still reported: %v", e.problems)
	}
	w[""] = []string{"a", "b"}
	step(cell.Key{Table: toyTable, Name: ""})
	c.Close()
	e.drain()
	e.sweep()
	if len(e.problems) != 0 {
		t.Errorf("a class that is gone is still reported: %v", e.problems)
	}
}

// Somebody who asks for very many names makes nobody else wait, and gets them all in the end.
func TestManyNamesAreBuiltInSlices(t *testing.T) {
	t.Parallel()
	const many = 100_000
	w := toyRows{"": {"a"}, "a": {"a"}}
	list := make([]string, many)
	for i := range list {
		list[i] = fmt.Sprint("n", i)
	}
	e := w.engine()
	greedy, other := toyClient(e, NewNameSets().Of(list)), toyClient(e, nil)
	commit := func(n string) {
		if err := e.Commit(toyContext(), []cell.Key{{Table: toyTable, Name: n}}, "v", nil); err != nil {
			t.Fatal(err)
		}
		e.drain()
		e.settle()
	}
	commit("")
	w["a"] = []string{"a", "x"}
	commit("a")
	if e.rest() == nil || !strings.Contains(held(other), "x") {
		t.Errorf("rest %v, the other client has\n%s", e.rest(), held(other))
	}
	complete := e.Settled()
	e.drain()
	for e.rest() != nil {
		select {
		case <-complete:
			t.Fatal("complete too early")
		default:
		}
		e.settle()
	}
	<-complete
	if n := greedy.Published().Types[translate.EndpointType][0].Items.Len(); n != many {
		t.Errorf("%d of %d names", n, many)
	}
	greedy.Close()
	e.drain()
	e.settle()
	if n := e.graph.Stats().Cells; n > 10 {
		t.Errorf("%d cells are left of what nobody wants any more", n)
	}
}
