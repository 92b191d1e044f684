package grpc

import (
	"strings"
	"testing"

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
	slots *fixture.Slots
}

func newWorld(t *testing.T, manifests string) *world {
	t.Helper()
	mesh, err := meshconfig.Parse()
	if err != nil {
		t.Fatal(err)
	}
	settings := model.DefaultSettings()
	settings.EnablePersistentSessionFilter = true
	w := &world{graph: cell.New()}
	w.pc, _ = model.NewBuilder(settings, mesh).Apply(fixture.Events(t, []byte(manifests)), nil)
	current := func() *model.PushContext { return w.pc }
	view.DefineScope(w.graph, current)
	filter.Define(w.graph, current)
	route.Define(w.graph, current)
	w.slots = fixture.NewSlots(w.graph, current, ClusterSlot(), ListenerSlot(), ServerSlot(), route.Slot())
	return w
}

// ask returns what slots of a type give for names, as YAML under each name.
func (w *world) ask(t *testing.T, v *view.View, typeURL string, names []string) string {
	t.Helper()
	var out strings.Builder
	for _, n := range names {
		found := 0
		for i, s := range w.slots.List {
			if s.TypeURL != typeURL {
				continue
			}
			for _, m := range w.slots.Build(t, i, n, v).Messages {
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
	return fixture.YAML(t, fixture.Value(t, whole))
}

// TestGolden compares what each case's clients and servers get with what was reviewed; UPDATE_GOLDEN=1 writes it anew.
func TestGolden(t *testing.T) {
	t.Parallel()
	fixture.EachArchive(t, func(t *testing.T, a *fixture.Archive) {
		w := newWorld(t, a.Text("input.yaml"))
		var proxies []proxy
		if err := yaml.Unmarshal([]byte(a.Text("proxies.yaml")), &proxies); err != nil {
			t.Fatal(err)
		}
		got, names := map[string]string{}, []string{}
		for _, p := range proxies {
			names = append(names, p.Name+".yaml")
			got[p.Name+".yaml"] = w.of(t, &p)
		}
		a.Check(t, names, got)
	})
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
