package listener

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/view"
)

func serviceYAML(name, vip string, ports ...string) string {
	return fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: shop}\nspec: {selector: {app: %s}, clusterIP: %s, ports: [%s]}\n",
		name, name, vip, strings.Join(ports, ", "))
}

func (w *world) units(t testing.TB, slot int, v *view.View) map[string]outboundUnit {
	t.Helper()
	out := map[string]outboundUnit{}
	for _, u := range w.slots.Units(slot, v) {
		if x, ok := u.(outboundUnit); ok {
			out[listenerName(strings.Split(x.bind, ",")[0], x.port)] = x
		}
	}
	return out
}

const (
	inA = "sidecar~10.1.0.1~x-1.ns-a~ns-a.svc.cluster.local"
	inB = "sidecar~10.2.0.1~y-1.ns-b~ns-b.svc.cluster.local"
)

func metaOf(namespace string) string { return "{NAMESPACE: " + namespace + ", CLUSTER_ID: Kubernetes}" }

// TestNamespacesShareListeners checks that proxies of two namespaces, for which a listener is the same, have one
// computation of it between them.
func TestNamespacesShareListeners(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serviceYAML("a", "10.96.0.1", "{name: tcp, port: 90}", "{name: http, port: 80}"), "")
	for _, c := range []struct {
		name       string
		extensions []string
		shared     map[string]bool
	}{
		// the Istio profile's HTTP filters carry the namespace as a tag of traces
		{"istio", nil, map[string]bool{"10.96.0.1_90": true, "0.0.0.0_80": false}},
		{"stock", stockExtensions(), map[string]bool{"10.96.0.1_90": true, "0.0.0.0_80": true}},
	} {
		a, b := w.node(t, inA, metaOf("ns-a"), c.extensions...), w.node(t, inB, metaOf("ns-b"), c.extensions...)
		ua, ub := w.units(t, 0, a), w.units(t, 0, b)
		for name, want := range c.shared {
			if ua[name] == (outboundUnit{}) || ua[name] != ub[name] {
				t.Fatalf("%s %s: units %+v and %+v", c.name, name, ua[name], ub[name])
			}
			if got := w.build(t, 0, ua[name], a) == w.build(t, 0, ub[name], b); got != want {
				t.Errorf("%s: %s is one computation: %v, want %v", c.name, name, got, want)
			}
		}
	}
}

// TestOneMoreServiceLeavesListenersAlone checks that a new service on a port that HTTP services share changes only the
// list of listeners, and that endpoints change nothing.
func TestOneMoreServiceLeavesListenersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serviceYAML("a", "10.96.0.1", "{name: http, port: 80}", "{name: tcp, port: 90}"), "")
	v := w.node(t, inA, metaOf("ns-a"))
	before := w.units(t, 0, v)
	w.listeners(t, v)
	computed := w.graph.Stats().Computed
	w.apply(t, `
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: a-1, namespace: shop, labels: {kubernetes.io/service-name: a}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.2], conditions: {ready: true}}]
ports: [{name: http, port: 80}, {name: tcp, port: 90}]
`)
	w.listeners(t, v)
	if n := w.graph.Stats().Computed - computed; n != 0 {
		t.Errorf("an endpoint made %d computations", n)
	}
	w.apply(t, serviceYAML("b", "10.96.0.2", "{name: http, port: 80}", "{name: tcp, port: 90}"))
	after := w.units(t, 0, v)
	for name, u := range before {
		if after[name] != u {
			t.Errorf("%s changed from %+v to %+v", name, u, after[name])
		}
	}
	if after["10.96.0.2_90"] == (outboundUnit{}) {
		t.Error("the new service has no listener")
	}
	computed = w.graph.Stats().Computed
	w.listeners(t, v)
	if n := w.graph.Stats().Computed - computed; n > 3 { // the new listener, the lists of the other slots
		t.Errorf("a service made %d computations", n)
	}
}
