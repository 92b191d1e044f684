package model

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

const makersWorld = `
kind: Service
metadata: {name: api, namespace: ns1}
spec: {clusterIP: 10.1.0.1, ports: [{name: http, port: 80}]}
---
kind: EndpointSlice
metadata: {name: api-1, namespace: ns1, labels: {kubernetes.io/service-name: api}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.0.0.1], conditions: {ready: true}, targetRef: {kind: Pod, name: api-1, namespace: ns1}}
- {addresses: [10.0.0.9], conditions: {ready: true}}
---
kind: Pod
metadata: {name: api-1, namespace: ns1, labels: {app: api}}
spec: {serviceAccountName: api}
status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}], conditions: [{type: Ready, status: "True"}]}
---
kind: ServiceEntry
metadata: {name: vms, namespace: ns1}
spec: {hosts: [vm.example], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], workloadSelector: {labels: {app: vm}}}
---
kind: WorkloadEntry
metadata: {name: vm, namespace: ns1}
spec: {address: 10.0.0.2, labels: {app: vm}}
---
kind: ServiceEntry
metadata: {name: site, namespace: ns1}
spec: {hosts: [site.example], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}
`

// TestMakers checks which objects stand behind each kind of row.
func TestMakers(t *testing.T) {
	t.Parallel()
	b := NewBuilder(DefaultSettings(), testMesh())
	objects := manifests(t, makersWorld)
	objects = append(objects,
		istioObject(t, KindAuthorizationPolicy, "ns1/all", 1, `{}`),
		istioObject(t, KindAuthorizationPolicy, "ns1/api", 2, `{selector: {matchLabels: {app: api}}}`),
		istioObject(t, KindAuthorizationPolicy, "ns1/other", 3, `{selector: {matchLabels: {app: other}}}`),
		istioObject(t, KindAuthorizationPolicy, "ns1/gateway", 4, `{targetRefs: [{kind: Gateway, group: gateway.networking.k8s.io, name: g}]}`),
		istioObject(t, KindAuthorizationPolicy, "ns1/old-gateway", 5, `{targetRef: {kind: Gateway, group: gateway.networking.k8s.io, name: g}}`),
		istioObject(t, KindAuthorizationPolicy, "ns2/all", 1, `{}`),
		istioObject(t, KindPeerAuthentication, "istio-system/mesh", 1, `{mtls: {mode: STRICT}}`),
		istioObject(t, KindPeerAuthentication, "istio-system/never", 1, `{selector: {matchLabels: {app: api}}}`),
		istioObject(t, KindPeerAuthentication, "ns1/first", 1, `{}`),
		istioObject(t, KindPeerAuthentication, "ns1/second", 2, `{}`),
		istioObject(t, KindPeerAuthentication, "ns1/api", 2, `{selector: {matchLabels: {app: api}}}`),
		istioObject(t, KindPeerAuthentication, "ns1/other", 2, `{selector: {matchLabels: {app: other}}}`),
		istioObject(t, KindPeerAuthentication, "ns2/other", 2, `{selector: {matchLabels: {app: api}}}`),
		istioObject(t, KindSidecar, "ns1/s", 1, `{}`),
	)
	pc, _ := b.Apply(present(objects...), nil)
	for _, c := range []struct {
		table cell.Table
		row   string
		want  string
	}{
		{TableObject, "Sidecar/ns1/s", "Sidecar/ns1/s"},
		{TableObject, "Sidecar/ns1/gone", ""},
		{TableObjects, "AuthorizationPolicy/ns1", "AuthorizationPolicy/ns1/all AuthorizationPolicy/ns1/api"},
		{TableObjects, "AuthorizationPolicy/ns2", "AuthorizationPolicy/ns2/all"},
		{TableObjects, "AuthorizationPolicy", ""},
		{TableObjects, "Telemetry/ns1", ""},
		{TablePeerAuth, "istio-system", "PeerAuthentication/istio-system/mesh"},
		{TablePeerAuth, "ns1", "PeerAuthentication/ns1/api PeerAuthentication/ns1/first"},
		{TablePeerAuth, "ns2", ""},
		{TableService, "ns1/api.ns1.svc.cluster.local", "Service/ns1/api"},
		{TableEndpoints, "ns1/api.ns1.svc.cluster.local", "EndpointSlice/ns1/api-1"},
		{TableEndpoints, "ns1/vm.example", "WorkloadEntry/ns1/vm"},
		{TableEndpoints, "ns1/site.example", "ServiceEntry/ns1/site"},
		{TableWorkload, "Kubernetes/ns1/api-1", "Pod/ns1/api-1"},
		{TableWorkload, "ip/10.0.0.1", "Pod/ns1/api-1"},
		{TableWorkload, "ip/10.0.0.2", "WorkloadEntry/ns1/vm"},
		{TableTargets, "ns1/10.0.0.1", "Service/ns1/api"},
		{TableMesh, "", ""},
		{TableVisible, "*", ""},
	} {
		got := pc.Makers(Origin{Rows: []cell.Key{{Table: c.table, Name: c.row}}, Namespace: "ns1", Labels: map[string]string{"app": "api"}})
		if text := strings.Trim(fmt.Sprint(got), "[]"); text != c.want {
			t.Errorf("table %d, row %q: %s, want %s", c.table, c.row, text, c.want)
		}
	}
}

// TestMakersOfEndpoints checks that of the policies of another namespace those count that select an endpoint.
func TestMakersOfEndpoints(t *testing.T) {
	t.Parallel()
	b := NewBuilder(DefaultSettings(), testMesh())
	pc, _ := b.Apply(present(append(manifests(t, makersWorld),
		istioObject(t, KindPeerAuthentication, "ns1/api", 2, `{selector: {matchLabels: {app: api}}}`),
		istioObject(t, KindPeerAuthentication, "ns1/other", 2, `{selector: {matchLabels: {app: other}}}`),
	)...), nil)
	got := pc.Makers(Origin{Namespace: "ns2", Rows: []cell.Key{
		{Table: TablePeerAuth, Name: "ns1"}, {Table: TableEndpoints, Name: "ns1/api.ns1.svc.cluster.local"},
	}})
	if text, want := fmt.Sprint(got), "[EndpointSlice/ns1/api-1 PeerAuthentication/ns1/api]"; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}
