package patch

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/cluster"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/listener"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// The kinds of the slots' cells in tests: one of each for each slot.
const (
	testUnits cell.Kind = 900
	testBuild cell.Kind = 920
)

// patchedSlots are the slots as the server wires them.
func patchedSlots() []*translate.Slot {
	return []*translate.Slot{
		Clusters(cluster.OutboundSlot(), Outbound), Clusters(cluster.InboundSlot(), Inbound),
		Listeners(listener.OutboundSlot(), Outbound), FurtherListeners(listener.HeadlessSlot(), Outbound),
		Listeners(listener.InboundSlot(), Inbound), Routes(route.Slot(), Outbound),
	}
}

func plainSlots() []*translate.Slot {
	return []*translate.Slot{
		cluster.OutboundSlot(), cluster.InboundSlot(), listener.OutboundSlot(), listener.HeadlessSlot(), listener.InboundSlot(), route.Slot(),
	}
}

// world is a control plane cut down to what is patched.
type world struct {
	builder *model.Builder
	pc      *model.PushContext
	graph   *cell.Graph
	slots   []*translate.Slot
	// made counts the units that each slot has built.
	made map[string]int
}

func newWorld(t testing.TB, slots []*translate.Slot, manifests string) *world {
	t.Helper()
	return newWorldWith(t, model.DefaultSettings(), slots, manifests)
}

func newWorldWith(t testing.TB, settings *model.Settings, slots []*translate.Slot, manifests string) *world {
	t.Helper()
	m, err := meshconfig.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{builder: model.NewBuilder(settings, m), graph: cell.New(), slots: slots, made: map[string]int{}}
	current := func() *model.PushContext { return w.pc }
	for _, define := range []func(*cell.Graph, func() *model.PushContext){view.DefineScope, listener.Define, route.Define, Define} {
		define(w.graph, current)
	}
	for i, s := range w.slots {
		w.graph.Define(testUnits+cell.Kind(i), func(rec *cell.Recorder, _ cell.ID, env cell.Env) any {
			list := s.Units(view.NewContext(w.pc, rec, w.graph, env.(*view.View)))
			return &list
		}, nil)
		w.graph.Define(testBuild+cell.Kind(i), func(rec *cell.Recorder, id cell.ID, env cell.Env) any {
			w.made[s.Name]++
			out, err := s.Build(view.NewContext(w.pc, rec, w.graph, env.(*view.View)), id.Arg)
			return &built{out, err}
		}, func(a, b any) bool { return a == b })
	}
	w.apply(t, manifests)
	return w
}

type built struct {
	messages []*translate.Message
	err      error
}

// apply adds or changes objects.
func (w *world) apply(t testing.TB, manifests string) {
	t.Helper()
	w.change(fixture.Events(t, []byte(manifests))...)
}

func (w *world) change(events ...model.Event) {
	var keys []cell.Key
	w.pc, keys = w.builder.Apply(events, nil)
	w.graph.Invalidate(keys)
}

func (w *world) view(t testing.TB, node string) *view.View {
	t.Helper()
	p := fixture.Proxy(t, []byte(node))
	p.Delta = true
	return view.Of(model.NewReader(w.pc, nil), p)
}

// config is what one proxy gets: resources by "<slot's type>/<name>", and problems.
type config struct {
	resources map[string]proto.Message
	problems  []string
}

// config makes all of a proxy's resources; the route configurations are those named.
func (w *world) config(t testing.TB, v *view.View, routes ...string) *config {
	t.Helper()
	out := &config{resources: map[string]proto.Message{}}
	for i, s := range w.slots {
		var units []any
		if s.Units == nil {
			for _, r := range routes {
				units = append(units, r)
			}
		} else {
			list, _ := w.graph.Get(nil, cell.ID{Kind: testUnits + cell.Kind(i)}, v).Value().(*[]any)
			units = *list
		}
		for _, u := range units {
			b, _ := w.graph.Get(nil, cell.ID{Kind: testBuild + cell.Kind(i), Arg: u}, v).Value().(*built)
			if b.err != nil {
				t.Fatalf("%s %+v: %v", s.Name, u, b.err)
			}
			out.add(t, s, b.messages)
		}
	}
	return out
}

func (c *config) add(t testing.TB, s *translate.Slot, messages []*translate.Message) {
	t.Helper()
	for _, m := range messages {
		if m.Err != nil {
			c.problems = append(c.problems, strings.Split(m.Err.Error(), "\n")...)
			continue
		}
		p := m.Proto
		if len(m.Parts) > 0 {
			b, err := translate.Encode(m)
			if err != nil {
				t.Fatal(err)
			}
			p = &routev3.RouteConfiguration{}
			if err := proto.Unmarshal(b.Flat(), p); err != nil {
				t.Fatal(err)
			}
		}
		if err := check(p); err != nil {
			t.Errorf("%s %s is invalid: %v", s.Name, m.Name, err)
		}
		kind, _, _ := strings.Cut(s.Name, "/")
		if key := kind + "/" + m.Name; c.resources[key] == nil {
			c.resources[key] = p
		}
	}
}

// same tells how two configurations differ, "" if they do not.
func (c *config) same(o *config) string {
	for _, n := range slices.Sorted(maps.Keys(c.resources)) {
		if !proto.Equal(c.resources[n], o.resources[n]) {
			return fmt.Sprintf("%s: %v and %v", n, c.resources[n], o.resources[n])
		}
	}
	if len(c.resources) != len(o.resources) {
		return fmt.Sprintf("%d and %d resources", len(c.resources), len(o.resources))
	}
	if !slices.Equal(c.problems, o.problems) {
		return fmt.Sprintf("problems %q and %q", c.problems, o.problems)
	}
	return ""
}

// render gives everything as YAML.
func (c *config) render(t testing.TB) string {
	t.Helper()
	all := map[string]any{}
	for n, m := range c.resources {
		b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
		if err != nil {
			t.Fatalf("%s: %v", n, err)
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			t.Fatal(err)
		}
		all[n] = v
	}
	y, err := yaml.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(y)
}

// archive is a test case on disk: input files, and what is wanted, under "want/".
type archive struct {
	path string
	*txtar.Archive
}

func readArchive(t testing.TB, path string) *archive {
	t.Helper()
	a, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &archive{path, a}
}

func (a *archive) file(name string) string { return string(fixture.File(a.Archive, name)) }

// check compares results, by name, with the files under "want/". UPDATE_GOLDEN=1 writes them anew.
func (a *archive) check(t *testing.T, names []string, got map[string]string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		keep := slices.DeleteFunc(a.Files, func(f txtar.File) bool { return strings.HasPrefix(f.Name, "want/") })
		for _, n := range names {
			keep = append(keep, txtar.File{Name: "want/" + n, Data: []byte(got[n])})
		}
		a.Files = keep
		if err := os.WriteFile(a.path, txtar.Format(a.Archive), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, n := range names {
		if want := a.file("want/" + n); want != got[n] {
			t.Errorf("%s: %s differs (UPDATE_GOLDEN=1 rewrites it); got:\n%s", filepath.Base(a.path), n, got[n])
		}
	}
}

// extensions returns what Extensions gives for a proxy, as "<name>:<script>".
func (w *world) extensions(t testing.TB, v *view.View) []string {
	t.Helper()
	var out []string
	for _, e := range Extensions(view.NewContext(w.pc, &cell.Recorder{}, w.graph, v)) {
		m := &luav3.Lua{}
		if err := e.GetTypedConfig().UnmarshalTo(m); err != nil {
			t.Fatal(err)
		}
		out = append(out, e.GetName()+":"+m.GetDefaultSourceCode().GetInlineString())
	}
	return out
}
