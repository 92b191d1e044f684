package traffic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/plane"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// namespace holds everything but the guest.
const namespace = "demo"

// caller is the workload that asks, if nothing else is said.
const caller = "caller"

// workload is one with a sidecar. Names are also labels app.
type workload struct {
	name, namespace, address string
	calls                    bool   // its application asks, on the services' port; others serve there
	sidecar                  string // further fields of its Sidecar
}

// workloads of the mesh. All of 127.0.0.0/8 is the machine itself, so that each has an address of its own.
func workloads() []workload {
	return []workload{
		{name: caller, namespace: namespace, address: "127.0.0.1", calls: true},
		{
			name: "guest", namespace: "guest", address: "127.0.1.2", calls: true,
			sidecar: "outboundTrafficPolicy: {mode: REGISTRY_ONLY}",
		},
		{name: "guard", namespace: namespace, address: "127.0.2.2"},
		{name: "gate", namespace: namespace, address: "127.0.2.3"},
		{name: "askhttp", namespace: namespace, address: "127.0.2.4"},
		{name: "askgrpc", namespace: namespace, address: "127.0.2.7"},
		{name: "blind", namespace: namespace, address: "127.0.2.8"},
		{name: "strict", namespace: namespace, address: "127.0.2.5"},
		{name: "limited", namespace: namespace, address: "127.0.2.6"},
	}
}

// mesh is a control plane on a directory and the workloads with their Envoys.
type mesh struct {
	dir    string
	vars   map[string]string // of all scenarios
	client *harness.Client
	fresh  *harness.Client // a connection for each request
	plane  *server.Server
	envoys map[string]*harness.Envoy
	apps   map[string]*harness.HTTPBackend
	oracle *oracle
}

// newMesh prepares a mesh without starting it.
func newMesh(t *testing.T) *mesh {
	t.Helper()
	m := &mesh{
		dir: t.TempDir(), vars: map[string]string{"http": strconv.Itoa(harness.NewPort(t).Number())},
		client: harness.NewClient(harness.ClientOptions{}), fresh: harness.NewClient(harness.ClientOptions{NewConnections: true}), envoys: map[string]*harness.Envoy{}, apps: map[string]*harness.HTTPBackend{},
	}
	t.Cleanup(m.client.Close)
	for _, w := range workloads() {
		m.vars[w.name] = w.address
	}
	return m
}

// start starts a mesh with the objects of all scenarios.
func (m *mesh) start(t *testing.T, runs []*run) {
	t.Helper()
	var providers strings.Builder
	egress, ingress := map[string]string{}, map[string]string{}
	for _, r := range runs {
		r.write(t, r.objects)
		egress[cmp.Or(r.on, caller)] += r.expand(t, r.listeners)
		ingress["limited"] += r.expand(t, r.ingress)
		providers.WriteString(r.expand(t, r.providers))
	}
	m.write(t, "namespaces.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: guest}\n")
	for _, w := range workloads() {
		if !w.calls {
			m.apps[w.name] = harness.NewHTTPBackend(t, harness.HTTPBackendOptions{Name: w.name})
		}
		m.write(t, w.name+"-workload.yaml", m.sidecar(w, egress[w.name], ingress[w.name]))
	}
	config, err := meshconfig.Parse([]byte("extensionProviders:\n" + providers.String()))
	if err != nil {
		t.Fatal(err)
	}
	m.plane = plane.Start(t, m.dir, func(o *server.Options) {
		o.Mesh = config
		o.Settings.EnablePersistentSessionFilter = true
		m.oracle = newOracle(t, m, o.Settings, config)
	})
	t.Cleanup(m.plane.Stop)
	for _, w := range workloads() {
		m.envoys[w.name] = m.envoy(t, w)
	}
	m.noProblems(t)
}

// noProblems fails the test if the control plane has found something wrong with an object.
func (m *mesh) noProblems(t *testing.T) {
	t.Helper()
	text := plane.Get(m.plane, "/debug/problemz")
	var sources map[string][]struct{ File, Field, Message string }
	if err := json.Unmarshal([]byte(text), &sources); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, problems := range sources {
		for _, p := range problems {
			t.Errorf("%s: %s: %s", p.File, p.Field, p.Message)
		}
	}
}

// sidecar is the Sidecar of a workload, with more items of its egress and ingress.
func (m *mesh) sidecar(w workload, egress, ingress string) string {
	listener := fmt.Sprintf("- port: {number: %s, protocol: HTTP, name: http}\n    bind: %s\n    captureMode: NONE\n", m.vars["http"], w.address)
	text := fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: Sidecar\nmetadata: {name: %[1]s, namespace: %[2]s}\nspec:\n"+
		"  workloadSelector: {labels: {app: %[1]s}}\n  %[3]s\n", w.name, w.namespace, w.sidecar)
	if w.calls {
		return text + "  egress:\n" + egress + "  " + listener + "    hosts: ['*/*']\n"
	}
	return text + "  ingress:\n  " + listener + fmt.Sprintf("    defaultEndpoint: 127.0.0.1:%d\n", m.apps[w.name].Port()) + ingress +
		"  egress:\n" + cmp.Or(egress, "  - hosts: ['~/*']\n")
}

// node is the name of a workload's proxy.
func (w workload) node() string {
	return fmt.Sprintf("sidecar~%s~%s.%s~%s.svc.cluster.local", w.address, w.name, w.namespace, w.namespace)
}

// metadata is what a workload's proxy says about itself.
func (w workload) metadata() map[string]any {
	return map[string]any{
		"NAMESPACE": w.namespace, "INSTANCE_IPS": w.address, "CLUSTER_ID": "Kubernetes", "INTERCEPTION_MODE": "NONE",
		"NAME": w.name, "LABELS": map[string]any{"app": w.name},
	}
}

// envoy starts the sidecar of a workload.
func (m *mesh) envoy(t *testing.T, w workload) *harness.Envoy {
	t.Helper()
	return harness.NewEnvoy(t, harness.EnvoyOptions{
		NodeID: w.node(), Metadata: w.metadata(),
		XDSAddress: m.plane.GRPC.String(), Bootstrap: "node: {locality: {region: west, zone: west-1}}",
	})
}

// addressOf returns the address where a workload's application calls.
func (m *mesh) addressOf(workload string) string {
	return m.vars[cmp.Or(workload, caller)]
}

func (m *mesh) write(t *testing.T, name, content string) {
	t.Helper()
	if err := world.Write(m.dir, name, content); err != nil {
		t.Fatal(err)
	}
}

// noRejections fails the test if an Envoy has rejected anything.
func (m *mesh) noRejections(t *testing.T) {
	t.Helper()
	for _, e := range m.envoys {
		if err := e.NoRejections(context.Background()); err != nil {
			t.Error(err)
		}
	}
}
