package route

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// world is a builder with the graph that lives on its PushContexts.
type world struct {
	t       testing.TB
	builder *model.Builder
	graph   *cell.Graph
}

func newWorld(t testing.TB, settings *model.Settings, manifests string) *world {
	t.Helper()
	m, err := meshconfig.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	if settings == nil {
		settings = model.DefaultSettings()
	}
	w := &world{t: t, builder: model.NewBuilder(settings, m), graph: cell.New()}
	view.DefineScope(w.graph, w.builder.Current)
	filter.Define(w.graph, w.builder.Current)
	Define(w.graph, w.builder.Current)
	w.apply(manifests)
	return w
}

func objects(t testing.TB, manifests string) []*model.Object {
	t.Helper()
	out, problems := file.Decode("test", []byte(manifests))
	for _, p := range problems {
		t.Fatalf("%d: %s", p.Line, p.Message)
	}
	return out
}

// apply adds or replaces objects.
func (w *world) apply(manifests string) {
	w.t.Helper()
	w.put(objects(w.t, manifests)...)
}

func (w *world) put(objects ...*model.Object) {
	events := make([]model.Event, 0, len(objects))
	for _, o := range objects {
		events = append(events, model.Event{Key: o.ObjectKey, Object: o})
	}
	_, keys := w.builder.Apply(events, nil)
	w.graph.Invalidate(keys)
}

// client is one kind of proxy.
type client struct {
	namespace string
	labels    map[string]string
	stock     bool // a stock Envoy, of the delta protocol
	sotw      bool // but of the state of the world
	metadata  map[string]any
}

func (w *world) context(p client) *view.Context {
	w.t.Helper()
	return view.NewContext(w.builder.Current(), &cell.Recorder{}, w.graph, w.view(p))
}

func (w *world) view(p client) *view.View {
	w.t.Helper()
	meta, err := structpb.NewStruct(p.metadata)
	if err != nil {
		w.t.Fatal(err)
	}
	proxy := &view.Proxy{
		ID: "pod." + p.namespace, Type: view.Sidecar, Namespace: p.namespace, Labels: p.labels, IPs: []string{"10.1.0.1"},
		DNSDomain: p.namespace + ".svc.cluster.local", ClusterID: "Kubernetes", Metadata: meta, Profile: view.IstioProfile,
	}
	if g, _ := p.metadata["GENERATOR"].(string); g != "" {
		proxy.Generator = g
	}
	if p.stock {
		proxy.Profile, proxy.Delta = view.StockProfile, !p.sotw
	}
	return view.Of(model.NewReader(w.builder.Current(), nil), proxy)
}

// rds returns the route configuration as the proxy decodes it, after checking what every one must keep.
func (w *world) rds(p client, name string) *routev3.RouteConfiguration {
	w.t.Helper()
	messages, err := Slot().Build(w.context(p), name)
	if err != nil || len(messages) != 1 {
		w.t.Fatalf("%s: %d messages, error %v", name, len(messages), err)
	}
	out := &routev3.RouteConfiguration{}
	w.decode(messages[0], out)
	checkConfiguration(w.t, out)
	return out
}

func (w *world) vhds(p client, name string) map[string]*routev3.VirtualHost {
	w.t.Helper()
	messages, err := VHDSSlot().Build(w.context(p), name)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]*routev3.VirtualHost{}
	for _, m := range messages {
		h := &routev3.VirtualHost{}
		w.decode(m, h)
		if h.GetName() != m.Name {
			w.t.Errorf("resource %q holds the virtual host %q", m.Name, h.GetName())
		}
		out[m.Name] = h
	}
	return out
}

func (w *world) decode(m *translate.Message, into proto.Message) {
	w.t.Helper()
	body, err := translate.Encode(m)
	if err != nil {
		w.t.Fatal(err)
	}
	if err := proto.Unmarshal(body.Flat(), into); err != nil {
		w.t.Fatal(err)
	}
}

type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// checkConfiguration checks what Envoy demands of every configuration.
func checkConfiguration(t failer, c *routev3.RouteConfiguration) {
	t.Helper()
	if err := c.ValidateAll(); err != nil {
		t.Errorf("%s: %v", c.GetName(), err)
	}
	domains, names := map[string]string{}, map[string]struct{}{}
	for _, h := range c.GetVirtualHosts() {
		if _, dup := names[h.GetName()]; dup {
			t.Errorf("%s: two virtual hosts are called %s", c.GetName(), h.GetName())
		}
		names[h.GetName()] = struct{}{}
		for _, d := range h.GetDomains() {
			key := strings.ToLower(d)
			if other, dup := domains[key]; dup {
				t.Errorf("%s: %s and %s both have the domain %q", c.GetName(), other, h.GetName(), d)
			}
			domains[key] = h.GetName()
		}
		for _, r := range h.GetRoutes() {
			if err := translate.Check(r); err != nil {
				t.Errorf("%s: %s: %v", c.GetName(), h.GetName(), err)
			}
		}
	}
}

func host(c *routev3.RouteConfiguration, name string) *routev3.VirtualHost {
	for _, h := range c.GetVirtualHosts() {
		if h.GetName() == name {
			return h
		}
	}
	return nil
}

func testdata(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
