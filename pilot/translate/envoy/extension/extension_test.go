package extension

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	meshconfig "istio.io/api/mesh/v1alpha1"
	apitype "istio.io/api/type/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// world is what a proxy of namespace shop with label app: api sees of some manifests.
type world struct {
	pc    *model.PushContext
	proxy *view.Proxy
}

func newWorld(t testing.TB, manifests []byte) *world {
	t.Helper()
	b := model.NewBuilder(model.DefaultSettings(), &model.Mesh{Config: &meshconfig.MeshConfig{RootNamespace: "istio-system"}})
	pc, _ := b.Apply(fixture.Events(t, manifests), nil)
	return &world{pc, fixture.Proxy(t, []byte(`
id: sidecar~10.0.0.1~api-1.shop~shop.svc.cluster.local
metadata: {NAMESPACE: shop, CLUSTER_ID: Kubernetes, LABELS: {app: api}}
`))}
}

func (w *world) context(change func(*view.Proxy)) (*view.Context, *cell.Recorder) {
	p := *w.proxy
	if change != nil {
		change(&p)
	}
	rec := &cell.Recorder{}
	return view.NewContext(w.pc, rec, cell.New(), view.Of(model.NewReader(w.pc, nil), &p)), rec
}

// filters lists the filters of chains by phase.
func filters(c *view.Context) string {
	short := func(b *strings.Builder, phase string, names []string) {
		for _, n := range names {
			fmt.Fprintf(b, "  %s %s\n", phase, strings.TrimPrefix(n, resourcePrefix))
		}
	}
	var b strings.Builder
	s := New(c)
	for _, at := range []struct {
		mode apitype.WorkloadMode
		port uint32
	}{{apitype.WorkloadMode_CLIENT, 80}, {apitype.WorkloadMode_SERVER, 8080}, {apitype.WorkloadMode_SERVER, 0}} {
		h, n := s.HTTP(at.mode, at.port), s.Network(at.mode, at.port)
		fmt.Fprintf(&b, "%s %d\n", at.mode, at.port)
		short(&b, "http authn", namesOf(h.Authn))
		short(&b, "http authz", namesOf(h.Authz))
		short(&b, "http stats", namesOf(h.Stats))
		short(&b, "http rest ", namesOf(h.Rest))
		short(&b, "network   ", namesOf(n.All()))
	}
	return b.String()
}

func namesOf[F interface{ GetName() string }](list []F) []string {
	out := make([]string, 0, len(list))
	for _, f := range list {
		out = append(out, f.GetName())
	}
	return out
}

// resources renders the configurations of every filter that some chain refers to.
func resources(t testing.TB, c *view.Context) string {
	t.Helper()
	var b strings.Builder
	seen := map[string]bool{}
	s := New(c)
	for _, mode := range []apitype.WorkloadMode{apitype.WorkloadMode_CLIENT, apitype.WorkloadMode_SERVER} {
		for _, n := range append(namesOf(s.HTTP(mode, 8080).All()), namesOf(s.Network(mode, 8080).All())...) {
			if seen[n] {
				continue
			}
			seen[n] = true
			out, err := Slot().Build(c, n)
			if err != nil || len(out) != 1 || out[0].Name != n {
				t.Fatalf("%s is referred to but not served: %v, %v", n, out, err)
			}
			if err := translate.Check(out[0].Proto); err != nil {
				t.Errorf("%s: %v", n, err)
			}
			js, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(out[0].Proto)
			if err != nil {
				js, err = json.Marshal(map[string]string{"error": err.Error()})
			}
			if err != nil {
				t.Fatal(err)
			}
			y, err := yaml.JSONToYAML(js)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, "---\n%s", y)
		}
	}
	return b.String()
}

// TestGolden compares filters and resources with what was reviewed. UPDATE_GOLDEN=1 writes them anew.
func TestGolden(t *testing.T) {
	t.Parallel()
	fixture.EachArchive(t, func(t *testing.T, a *fixture.Archive) {
		w := newWorld(t, []byte(a.Text("input.yaml")))
		verified, _ := w.context(func(p *view.Proxy) { p.Verified = true })
		anybody, _ := w.context(nil)
		stock, _ := w.context(func(p *view.Proxy) { p.Profile = view.StockProfile })
		other, _ := w.context(func(p *view.Proxy) { p.Labels = map[string]string{"app": "other"} })
		a.Check(t, []string{"filters", "filters of app other", "verified", "stock"}, map[string]string{
			"filters": filters(verified), "filters of app other": filters(other),
			"verified": resources(t, verified), "stock": resources(t, stock),
		})
		if text := resources(t, anybody); strings.Contains(text, "dXNlcjpwYXNz") || !strings.Contains(text, envPullSecret+`: ""`) {
			t.Errorf("a proxy that has not proved who it is gets credentials, or is not told that there are some:\n%s", text)
		}
	})
}

// TestNames asks for names that are nobody's, or another namespace's.
func TestNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t, []byte(`
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: a.b, namespace: other}
spec: {url: registry.example/a}
---
apiVersion: extensions.istio.io/v1alpha1
kind: WasmPlugin
metadata: {name: a.b, namespace: shop}
spec: {url: registry.example/a}
`))
	c, _ := w.context(nil)
	added := func(_ *view.Context, name string) ([]*translate.Message, error) {
		if name == "mine" {
			return []*translate.Message{{Name: name}}, nil
		}
		return nil, nil
	}
	for name, want := range map[string]int{
		"":                                       0,
		"x":                                      0,
		"mine":                                   1,
		resourcePrefix:                           0,
		resourcePrefix + "shop":                  0,
		resourcePrefix + "shop.a.b":              0, // of the other kind
		resourcePrefix + "shop.a.b" + wasmSuffix: 1,
		resourcePrefix + "other.a.b" + wasmSuffix: 0,
	} {
		out, err := Slot(added).Build(c, name)
		if err != nil || len(out) != want {
			t.Errorf("%q: %v, %v", name, out, err)
		}
	}
}

// TestReadsLittle wants a proxy's properties to be looked at only where they decide something.
func TestReadsLittle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec              string
		namespace, labels bool
	}{
		"no plugin":                   {"", false, false},
		"for all":                     {"{url: a.example/x}", true, false},
		"with a selector":             {"{url: a.example/x, selector: {matchLabels: {app: api}}}", true, true},
		"with a selector, for others": {"{url: a.example/x, selector: {matchLabels: {app: api}}, match: [{mode: SERVER}]}", true, false},
	} {
		var manifests string
		if c.spec != "" {
			manifests = "apiVersion: extensions.istio.io/v1alpha1\nkind: WasmPlugin\nmetadata: {name: x, namespace: shop}\nspec: " + c.spec
		}
		ctx, rec := newWorld(t, []byte(manifests)).context(nil)
		New(ctx).HTTP(apitype.WorkloadMode_CLIENT, 80)
		if m := rec.Mask(); m.Has(view.PropNamespace) != c.namespace || m.Has(view.PropLabels) != c.labels {
			t.Errorf("%s: reads namespace %v, labels %v", name, m.Has(view.PropNamespace), m.Has(view.PropLabels))
		}
	}
}
