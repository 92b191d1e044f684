package dns

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/api/nds"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

const manifests = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {clusterIP: 10.96.0.10, ports: [{name: http, port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: ring, namespace: shop}
spec: {clusterIP: None, ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ring-1, namespace: shop, labels: {kubernetes.io/service-name: ring}}
addressType: IPv4
endpoints:
- {addresses: [10.1.0.1], hostname: ring-0, conditions: {ready: true}, targetRef: {kind: Pod, name: ring-0, namespace: shop}}
- {addresses: [10.1.0.2], hostname: ring-1, conditions: {ready: false}, targetRef: {kind: Pod, name: ring-1, namespace: shop}}
ports: [{name: http, port: 80}]
---
apiVersion: v1
kind: Pod
metadata: {name: ring-0, namespace: shop}
spec: {hostname: ring-0, subdomain: ring, containers: [{name: app}]}
status: {phase: Running, podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: alias, namespace: shop}
spec: {type: ExternalName, externalName: web.shop.svc.cluster.local}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: one, namespace: shop}
spec: {hosts: [ext.example], addresses: [192.0.2.1, 198.51.100.0/24], resolution: NONE, ports: [{number: 80, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: nameless, namespace: shop}
spec: {hosts: [dns.example], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`

// world is a builder with the graph that lives on its PushContexts.
type world struct {
	t       *testing.T
	builder *model.Builder
	graph   *cell.Graph
}

func newWorld(t *testing.T) *world {
	t.Helper()
	m, err := meshconfig.Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t, model.NewBuilder(model.DefaultSettings(), m), cell.New()}
	view.DefineScope(w.graph, w.builder.Current)
	Define(w.graph, w.builder.Current)
	w.apply(manifests)
	return w
}

func (w *world) apply(text string) {
	w.t.Helper()
	_, keys := w.builder.Apply(fixture.Events(w.t, []byte(text)), nil)
	w.graph.Invalidate(keys)
}

func (w *world) table() *nds.NameTable {
	w.t.Helper()
	pc := w.builder.Current()
	proxy := &view.Proxy{
		ID: "pod.shop", Type: view.Sidecar, Namespace: "shop", IPs: []string{"10.9.0.1"}, ClusterID: "Kubernetes",
		DNSDomain: "shop.svc.cluster.local", Metadata: &structpb.Struct{},
	}
	c := view.NewContext(pc, &cell.Recorder{}, w.graph, view.Of(model.NewReader(pc, nil), proxy))
	messages, err := Slot().Build(c, "")
	if err != nil || len(messages) != 1 || messages[0].Name != "" {
		w.t.Fatalf("got %v, error %v", messages, err)
	}
	out, _ := messages[0].Proto.(*nds.NameTable)
	return out
}

func TestNameTable(t *testing.T) {
	t.Parallel()
	got := newWorld(t).table()
	want := &nds.NameTable{Table: map[string]*nds.NameTable_NameInfo{
		"web.shop.svc.cluster.local": {
			Ips: []string{"10.96.0.10"}, Registry: "Kubernetes", Shortname: "web", Namespace: "shop",
		},
		"ring.shop.svc.cluster.local": {
			Ips: []string{"10.1.0.1"}, Registry: "Kubernetes", Shortname: "ring", Namespace: "shop",
		},
		"ring-0.ring.shop.svc.cluster.local": {
			Ips: []string{"10.1.0.1"}, Registry: "Kubernetes", Shortname: "ring-0.ring", Namespace: "shop",
		},
		"ext.example": {Ips: []string{"192.0.2.1"}, Registry: "External"},
	}}
	if !proto.Equal(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
}

func TestServiceEntriesOfOneHostAddUpAndKubernetesWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: shadow, namespace: shop}
spec: {hosts: [web.shop.svc.cluster.local], addresses: [192.0.2.9], resolution: NONE, ports: [{number: 80, name: http, protocol: HTTP}]}
`)
	if ips := w.table().GetTable()["web.shop.svc.cluster.local"].GetIps(); !slices.Equal(ips, []string{"10.96.0.10"}) {
		t.Errorf("web has %v", ips)
	}
}

func TestEditedRulesDoNotTouchTheTable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.table()
	w.apply("apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: r, namespace: shop}\n" +
		"spec: {hosts: [web], http: [{route: [{destination: {host: web}}]}]}\n")
	start := w.graph.Stats().Computed
	w.table()
	// The scope, who shares it, and what it is without HTTP rules, which is the same.
	if n := w.graph.Stats().Computed - start; n > 3 {
		t.Errorf("%d computations for a rule", n)
	}
}
