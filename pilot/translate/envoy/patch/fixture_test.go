package patch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	luav3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	"google.golang.org/protobuf/proto"

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
	slots   *fixture.Slots
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
	w := &world{builder: model.NewBuilder(settings, m), graph: cell.New()}
	current := func() *model.PushContext { return w.pc }
	for _, define := range []func(*cell.Graph, func() *model.PushContext){view.DefineScope, listener.Define, route.Define, Define} {
		define(w.graph, current)
	}
	w.slots = fixture.NewSlots(w.graph, current, slots...)
	w.apply(t, manifests)
	return w
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
	for i, s := range w.slots.List {
		var units []any
		if s.Units == nil {
			for _, r := range routes {
				units = append(units, r)
			}
		} else {
			units = w.slots.Units(i, v)
		}
		for _, u := range units {
			out.add(t, s, w.slots.Build(t, i, u, v).Messages)
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
		all[n] = fixture.Value(t, m)
	}
	return fixture.YAML(t, all)
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
