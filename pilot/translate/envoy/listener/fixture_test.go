package listener

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// The kinds of the slots' cells in tests: two for each slot.
const (
	testUnits cell.Kind = 900
	testBuild cell.Kind = 910
)

// world is a control plane cut down to listeners.
type world struct {
	builder *model.Builder
	pc      *model.PushContext
	graph   *cell.Graph
	slots   []*translate.Slot
}

// newWorld reads manifests and a mesh configuration, both YAML.
func newWorld(t testing.TB, manifests, mesh string) *world {
	t.Helper()
	return newWorldWith(t, model.DefaultSettings(), manifests, mesh)
}

func newWorldWith(t testing.TB, settings *model.Settings, manifests, mesh string) *world {
	t.Helper()
	m, err := meshconfig.Parse([]byte(mesh))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		builder: model.NewBuilder(settings, m), graph: cell.New(),
		slots: []*translate.Slot{OutboundSlot(), HeadlessSlot(), InboundSlot()},
	}
	current := func() *model.PushContext { return w.pc }
	view.DefineScope(w.graph, current)
	Define(w.graph, current)
	route.Define(w.graph, current)
	for i, s := range w.slots {
		w.graph.Define(testUnits+cell.Kind(i), func(rec *cell.Recorder, _ cell.ID, env cell.Env) any {
			list := s.Units(view.NewContext(w.pc, rec, w.graph, env.(*view.View)))
			return &list
		}, nil)
		w.graph.Define(testBuild+cell.Kind(i), func(rec *cell.Recorder, id cell.ID, env cell.Env) any {
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
	var keys []cell.Key
	w.pc, keys = w.builder.Apply(fixture.Events(t, []byte(manifests)), nil)
	w.graph.Invalidate(keys)
}

// node returns the view of a proxy: "type~ip~id~domain" and metadata in YAML. Extensions make it a stock Envoy.
func (w *world) node(t testing.TB, id, metadata string, extensions ...string) *view.View {
	t.Helper()
	n := &corev3.Node{Id: id}
	text, err := yaml.YAMLToJSON([]byte("metadata: " + metadata))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(text, n); err != nil {
		t.Fatal(err)
	}
	n.Id = id
	for _, e := range extensions {
		n.Extensions = append(n.Extensions, &corev3.Extension{Name: e})
	}
	p, err := view.ParseNode(n, view.NodeDefaults{})
	if err != nil {
		t.Fatal(err)
	}
	p.Delta = true
	return view.Of(model.NewReader(w.pc, nil), p)
}

// listeners returns all listeners of a proxy by name; each must be valid.
func (w *world) listeners(t testing.TB, v *view.View) map[string]proto.Message {
	t.Helper()
	out := map[string]proto.Message{}
	for i := range w.slots {
		units, _ := w.graph.Get(nil, cell.ID{Kind: testUnits + cell.Kind(i)}, v).Value().(*[]any)
		for _, u := range *units {
			for _, m := range w.build(t, i, u, v).messages {
				if _, twice := out[m.Name]; twice {
					t.Errorf("two listeners are called %s", m.Name)
				}
				out[m.Name] = m.Proto
			}
		}
	}
	return out
}

func (w *world) build(t testing.TB, slot int, unit any, v *view.View) *built {
	t.Helper()
	b, _ := w.graph.Get(nil, cell.ID{Kind: testBuild + cell.Kind(slot), Arg: unit}, v).Value().(*built)
	if b.err != nil {
		t.Fatalf("%+v: %v", unit, b.err)
	}
	for _, m := range b.messages {
		if x, ok := m.Proto.(interface{ ValidateAll() error }); !ok || x.ValidateAll() != nil {
			t.Errorf("%s: %v", m.Name, x.ValidateAll())
		}
	}
	return b
}

// render gives a message as YAML.
func render(t testing.TB, m proto.Message) string {
	t.Helper()
	b, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(v)
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
		var keep []txtar.File
		for _, f := range a.Files {
			if !strings.HasPrefix(f.Name, "want/") {
				keep = append(keep, f)
			}
		}
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
