package grpc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// testBuild is the kind of the slots' cells in tests: one for each slot.
const testBuild cell.Kind = 900

// proxy is one client or server of a test case, and what it asks for.
type proxy struct {
	Name     string         `json:"name"`
	Node     map[string]any `json:"node"`
	Clusters []string       `json:"clusters"`
	// Listeners and routes are asked for as well.
	Listeners []string `json:"listeners"`
	Routes    []string `json:"routes"`
}

// world is a control plane cut down to what gRPC clients are given.
type world struct {
	pc    *model.PushContext
	graph *cell.Graph
	slots []*translate.Slot
}

type built struct {
	messages []*translate.Message
	err      error
}

func newWorld(t *testing.T, manifests string) *world {
	t.Helper()
	mesh, err := meshconfig.Parse()
	if err != nil {
		t.Fatal(err)
	}
	settings := model.DefaultSettings()
	settings.EnablePersistentSessionFilter = true
	w := &world{graph: cell.New(), slots: []*translate.Slot{ClusterSlot(), ListenerSlot(), ServerSlot(), route.Slot()}}
	w.pc, _ = model.NewBuilder(settings, mesh).Apply(fixture.Events(t, []byte(manifests)), nil)
	current := func() *model.PushContext { return w.pc }
	view.DefineScope(w.graph, current)
	filter.Define(w.graph, current)
	route.Define(w.graph, current)
	for i, s := range w.slots {
		w.graph.Define(testBuild+cell.Kind(i), func(rec *cell.Recorder, id cell.ID, env cell.Env) any {
			out, err := s.Build(view.NewContext(w.pc, rec, w.graph, env.(*view.View)), id.Arg)
			return &built{out, err}
		}, func(a, b any) bool { return a == b })
	}
	return w
}

// ask returns what slots of a type give for names, as YAML under each name.
func (w *world) ask(t *testing.T, v *view.View, typeURL string, names []string) string {
	t.Helper()
	var out strings.Builder
	for _, n := range names {
		found := 0
		for i, s := range w.slots {
			if s.TypeURL != typeURL {
				continue
			}
			b, _ := w.graph.Get(nil, cell.ID{Kind: testBuild + cell.Kind(i), Arg: n}, v).Value().(*built)
			if b.err != nil {
				t.Fatalf("%s: %v", n, b.err)
			}
			for _, m := range b.messages {
				found++
				out.WriteString("# " + m.Name + "\n" + render(t, m))
			}
		}
		switch {
		case found == 0:
			out.WriteString("# " + n + ": none\n")
		case found > 1:
			t.Errorf("%s: %d resources of one name", n, found)
		}
	}
	return out.String()
}

// render gives an encoded message as YAML, after the checks that it meets on its way out.
func render(t *testing.T, m *translate.Message) string {
	t.Helper()
	if m.Err != nil {
		t.Errorf("%s: %v", m.Name, m.Err)
	}
	if err := translate.Check(m.Proto); err != nil {
		t.Errorf("%s: %v", m.Name, err)
	}
	body, err := translate.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	whole := m.Proto.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(body.Flat(), whole); err != nil {
		t.Fatal(err)
	}
	js, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(js, &v); err != nil {
		t.Fatal(err)
	}
	y, err := yaml.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(y)
}

// TestGolden compares what each case's clients and servers get with what was reviewed; UPDATE_GOLDEN=1 writes it anew.
func TestGolden(t *testing.T) {
	t.Parallel()
	cases, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, string(fixture.File(a, "input.yaml")))
			var proxies []proxy
			if err := yaml.Unmarshal(fixture.File(a, "proxies.yaml"), &proxies); err != nil {
				t.Fatal(err)
			}
			want := &txtar.Archive{Comment: a.Comment}
			for _, f := range a.Files {
				if !strings.HasPrefix(f.Name, "want/") {
					want.Files = append(want.Files, f)
				}
			}
			for _, p := range proxies {
				got := w.of(t, &p)
				want.Files = append(want.Files, txtar.File{Name: "want/" + p.Name + ".yaml", Data: []byte(got)})
				if old := string(fixture.File(a, "want/"+p.Name+".yaml")); old != got && os.Getenv("UPDATE_GOLDEN") == "" {
					t.Errorf("%s: %s differs (UPDATE_GOLDEN=1 rewrites it); got:\n%s", path, p.Name, got)
				}
			}
			if os.Getenv("UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(path, txtar.Format(want), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// of returns all that one proxy asks for.
func (w *world) of(t *testing.T, p *proxy) string {
	t.Helper()
	node, err := yaml.Marshal(p.Node)
	if err != nil {
		t.Fatal(err)
	}
	v := view.Of(model.NewReader(w.pc, nil), fixture.Proxy(t, node))
	return w.ask(t, v, translate.ListenerType, p.Listeners) + w.ask(t, v, translate.ClusterType, p.Clusters) +
		w.ask(t, v, translate.RouteType, p.Routes)
}
