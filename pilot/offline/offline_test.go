package offline

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

const webHost = "web.shop.svc.cluster.local"

// startAt starts a control plane on a directory.
func startAt(t *testing.T, dir string) (*Plane, *Input) {
	t.Helper()
	in, err := Read(t.Context(), Files{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(model.DefaultSettings(), in.Mesh, in.Objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p, in
}

// nodeFile reads a node of testdata.
func nodeFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ask returns what the node gets that is given as JSON.
func ask(t *testing.T, p *Plane, node []byte, targets ...string) Resources {
	t.Helper()
	n, err := ReadNode(node)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Ask(n, p.SubscriptionOf(n, targets))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestProxyFollowsWhatItGets(t *testing.T) {
	t.Parallel()
	p, _ := startAt(t, filepath.Join("testdata", "shop"))
	got := ask(t, p, nodeFile(t, "client.json"))
	for url, name := range map[string]string{
		translate.ClusterType:   "outbound|80|v1|" + webHost,
		translate.EndpointType:  "outbound|80|v1|" + webHost,
		translate.ListenerType:  "virtualOutbound",
		translate.RouteType:     "80",
		translate.ExtensionType: "extensions.istio.io/trafficextension/shop.checks~istio-translated-wasmplugin",
	} {
		if got[url][name] == nil {
			t.Errorf("no %s in %s", name, url)
		}
	}
	route := got[translate.RouteType]["80"]
	if route == nil {
		t.Fatal("no routes")
	}
	for _, want := range []model.ObjectKey{
		{Kind: model.KindVirtualService, Namespace: "shop", Name: "web"}, {Kind: model.KindService, Namespace: "shop", Name: "web"},
	} {
		if !slices.Contains(route.Objects, want) {
			t.Errorf("the routes are made of %v, which lacks %v", route.Objects, want)
		}
	}
}

func TestGRPCLibraryFollowsItsTargets(t *testing.T) {
	t.Parallel()
	p, _ := startAt(t, filepath.Join("testdata", "shop"))
	node := bytes.Replace(nodeFile(t, "client.json"), []byte(`"metadata": {`), []byte(`"metadata": {"GENERATOR": "grpc",`), 1)
	for name, targets := range map[string][]string{"one target": {webHost + ":80"}, "every service": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, p, node, targets...)
			for url, name := range map[string]string{
				translate.ListenerType: webHost + ":80", translate.RouteType: "outbound|80||" + webHost,
				translate.ClusterType: "outbound|80|v2|" + webHost, translate.EndpointType: "outbound|80|v2|" + webHost,
			} {
				if got[url][name] == nil {
					t.Errorf("no %s in %s", name, url)
				}
			}
		})
	}
}

func TestMistakesAreReportedAndHarmNoOther(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "shop"))); err != nil {
		t.Fatal(err)
	}
	bad := "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: bad, namespace: shop}\nspec:\n  hosts: [web]\n  http:\n  - route: [{destination: {host: ''}}]\n---\nkind: [\n"
	if err := os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte(bad), 0o600); err != nil {
		t.Fatal(err)
	}
	p, in := startAt(t, dir)
	var objects []string
	for _, problem := range in.Problems {
		if problem.File != "bad.yaml" || problem.Line == 0 {
			t.Errorf("a problem elsewhere: %+v", problem)
		}
		objects = append(objects, problem.Object.Name)
	}
	if !slices.Contains(objects, "bad") || !slices.Contains(objects, "") {
		t.Errorf("problems with %q, want the object and the document", objects)
	}
	if got := ask(t, p, nodeFile(t, "client.json")); got[translate.RouteType]["80"] == nil {
		t.Error("the valid objects have no effect")
	}
}

func TestReadErrors(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Files{
		"no directory": {Dir: filepath.Join("testdata", "none")},
		"no mesh file": {Dir: filepath.Join("testdata", "shop"), Mesh: filepath.Join("testdata", "none")},
	} {
		if _, err := Read(t.Context(), f); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ReadNode([]byte("{")); err == nil {
		t.Error("a node that is no JSON: no error")
	}
	if n, err := ReadNode([]byte(`{"id":"a","future":1}`)); err != nil || n.GetId() != "a" {
		t.Errorf("a node with an unknown field: %v, %v", n, err)
	}
}

func TestOutputIsDeterministic(t *testing.T) {
	t.Parallel()
	var outputs [2][3]string
	for i := range outputs {
		p, _ := startAt(t, filepath.Join("testdata", "shop"))
		node, err := ReadNode(nodeFile(t, "client.json"))
		if err != nil {
			t.Fatal(err)
		}
		got := ask(t, p, nodeFile(t, "client.json"))
		for j, f := range []func() ([]byte, error){got.JSON, got.YAML, func() ([]byte, error) { return got.BootstrapJSON(node) }} {
			out, err := f()
			if err != nil {
				t.Fatal(err)
			}
			outputs[i][j] = string(out)
		}
	}
	if outputs[0] != outputs[1] {
		t.Error("two runs give different output")
	}
	for _, want := range []string{`"listeners": [`, `"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"`, `"VirtualService/shop/web"`} {
		if !strings.Contains(outputs[0][0], want) {
			t.Errorf("the JSON lacks %s", want)
		}
	}
}

func TestUnknownMessagesAreGivenAsBytes(t *testing.T) {
	t.Parallel()
	m := &routev3.RouteConfiguration{Name: "a", TypedPerFilterConfig: nil}
	r := Resources{translate.RouteType: {"a": {TypeURL: translate.RouteType, Name: "a", Message: withUnknown(m)}}}
	out, err := r.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), `"bytes"`) {
		t.Errorf("got %s", out)
	}
}

// withUnknown puts an Any into the configuration whose type nobody knows.
func withUnknown(m *routev3.RouteConfiguration) proto.Message {
	m.TypedPerFilterConfig = unknownAny()
	return m
}
