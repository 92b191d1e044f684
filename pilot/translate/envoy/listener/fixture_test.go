package listener

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// world is a control plane cut down to listeners.
type world struct {
	builder *model.Builder
	pc      *model.PushContext
	graph   *cell.Graph
	slots   *fixture.Slots
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
	w := &world{builder: model.NewBuilder(settings, m), graph: cell.New()}
	current := func() *model.PushContext { return w.pc }
	view.DefineScope(w.graph, current)
	Define(w.graph, current)
	route.Define(w.graph, current)
	w.slots = fixture.NewSlots(w.graph, current, OutboundSlot(), HeadlessSlot(), InboundSlot())
	w.apply(t, manifests)
	return w
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
	for i := range w.slots.List {
		for _, u := range w.slots.Units(i, v) {
			for _, m := range w.build(t, i, u, v).Messages {
				if _, twice := out[m.Name]; twice {
					t.Errorf("two listeners are called %s", m.Name)
				}
				out[m.Name] = m.Proto
			}
		}
	}
	return out
}

func (w *world) build(t testing.TB, slot int, unit any, v *view.View) *fixture.Built {
	t.Helper()
	b := w.slots.Build(t, slot, unit, v)
	for _, m := range b.Messages {
		if x, ok := m.Proto.(interface{ ValidateAll() error }); !ok || x.ValidateAll() != nil {
			t.Errorf("%s: %v", m.Name, x.ValidateAll())
		}
	}
	return b
}
