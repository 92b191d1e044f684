package route

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

func serviceManifest(namespace, name string, port int) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s}\n"+
		"spec: {clusterIP: 10.96.7.7, ports: [{name: http, port: %d}]}\n", name, namespace, port)
}

// manyServices returns n services on port 80 in ten namespaces, each with an address of its own.
func manyServices(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {name: svc-%d, namespace: ns-%d}\n"+
			"spec: {clusterIP: 10.96.%d.%d, ports: [{name: http, port: 80}]}\n", i, i%10, i/250, i%250+1)
	}
	return b.String()
}

func ruleManifest(name, host, timeout string) string {
	return fmt.Sprintf("---\napiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: %s, namespace: ns-0}\n"+
		"spec: {hosts: [%s], http: [{timeout: %s, route: [{destination: {host: %s}}]}]}\n", name, host, timeout, host)
}

// message builds a configuration without looking into it.
func (w *world) message(p client, name string) *translate.Message {
	w.t.Helper()
	m, err := Slot().Build(w.context(p), name)
	if err != nil {
		w.t.Fatal(err)
	}
	return m[0]
}

func (w *world) computed() int { return w.graph.Stats().Computed }

func TestAnEditedRuleEncodesItsOwnVirtualHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, manyServices(50)+ruleManifest("r", "svc-0", "1s"))
	p := client{namespace: "ns-1"}
	before := w.message(p, "80")
	w.apply(ruleManifest("r", "svc-0", "2s"))
	start := w.computed()
	after := w.message(p, "80")
	changed := 0
	for i, part := range after.Parts {
		if part != before.Parts[i] {
			changed++
		}
	}
	if len(after.Parts) != len(before.Parts) || changed != 1 {
		t.Errorf("%d of %d parts changed, want 1", changed, len(after.Parts))
	}
	// The scope, who shares it, the listing, the plan, and the one virtual host.
	if n := w.computed() - start; n > 5 {
		t.Errorf("%d computations for one edited rule", n)
	}
}

func TestAnEditedDestinationRuleReachesOnlyWhatItHashes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, manyServices(50))
	p := client{namespace: "ns-1"}
	before := w.message(p, "80")
	w.apply("apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: d, namespace: ns-0}\n" +
		"spec: {host: svc-0, trafficPolicy: {loadBalancer: {consistentHash: {useSourceIp: true}}}}\n")
	start := w.computed()
	after := w.message(p, "80")
	changed := 0
	for i, part := range after.Parts {
		if part != before.Parts[i] {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("%d parts changed, want 1", changed)
	}
	if n := w.computed() - start; n != 1 {
		t.Errorf("%d computations, want that of the one virtual host", n)
	}
}

func TestNamespacesShareTheVirtualHostsOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, manyServices(50))
	a, b := w.message(client{namespace: "ns-1"}, "80"), w.message(client{namespace: "ns-2"}, "80")
	shared := 0
	for i, part := range a.Parts {
		if part == b.Parts[i] {
			shared++
		}
	}
	// Each namespace calls its own five services by short names.
	if want := len(a.Parts) - 10; shared != want {
		t.Errorf("%d of %d parts are shared, want %d", shared, len(a.Parts), want)
	}
}

func TestLabelsSplitOnlyWhatTestsThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, manyServices(20)+`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: r, namespace: ns-0}
spec: {hosts: [svc-0], http: [{match: [{sourceLabels: {app: web}}], timeout: 1s, route: [{destination: {host: svc-0}}]}, {route: [{destination: {host: svc-0}}]}]}
`)
	a := w.message(client{namespace: "ns-1", labels: map[string]string{"app": "web"}}, "80")
	b := w.message(client{namespace: "ns-1", labels: map[string]string{"app": "job"}}, "80")
	differ := 0
	for i, part := range a.Parts {
		if part != b.Parts[i] {
			differ++
		}
	}
	if differ != 1 {
		t.Errorf("%d parts differ by the label, want 1", differ)
	}
}

func TestAListenerOfOneServiceIgnoresTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, serviceManifest("ns-0", "auto", 9000)+manyServices(10))
	p, name := client{namespace: "ns-1"}, "auto.ns-0.svc.cluster.local:9000"
	if c := w.rds(p, name); len(c.GetVirtualHosts()) != 1 {
		t.Fatalf("got %v", c)
	}
	c := w.graph.Get(nil, cell.ID{Kind: kindPlan, Arg: name}, w.view(p))
	w.apply(serviceManifest("ns-3", "unrelated", 9000) + ruleManifest("r", "svc-1", "1s"))
	start := w.computed()
	if again := w.graph.Get(nil, cell.ID{Kind: kindPlan, Arg: name}, w.view(p)); again.Value() != c.Value() {
		t.Error("the plan changed")
	}
	if n := w.computed() - start; n != 0 {
		t.Errorf("%d computations for services that are not its own", n)
	}
}

func BenchmarkPlanAndAssemble(b *testing.B) {
	w := newWorld(b, nil, manyServices(1000))
	p := client{namespace: "ns-1"}
	w.message(p, "80")
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		w.apply(ruleManifest("r", "svc-0", fmt.Sprintf("%ds", i%50+1)))
		if _, err := translate.Encode(w.message(p, "80")); err != nil {
			b.Fatal(err)
		}
	}
}
