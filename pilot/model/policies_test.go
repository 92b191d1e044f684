package model

import (
	"maps"
	"slices"
	"strings"
	"testing"

	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
)

func TestSidecarOrder(t *testing.T) {
	t.Parallel()
	r := readerOf(
		t,
		istioObject(t, KindSidecar, "ns1/plain-old", 1, `{}`),
		istioObject(t, KindSidecar, "ns1/sel-new", 4, `{workloadSelector: {labels: {app: a}}}`),
		istioObject(t, KindSidecar, "ns1/sel-empty", 3, `{workloadSelector: {}}`),
		istioObject(t, KindSidecar, "ns1/plain-older", 0, `{}`),
	)
	var got []string
	for _, s := range r.Sidecars("ns1") {
		got = append(got, s.Name)
	}
	if want := "sel-empty sel-new plain-older plain-old"; strings.Join(got, " ") != want {
		t.Errorf("order %v, want %s", got, want)
	}
	if s := r.Sidecars("ns1")[0]; s.Selector == nil || len(s.Selector) != 0 {
		t.Errorf("an empty selector became %v", s.Selector)
	}
}

func TestSidecarRowsStayWhoseObjectsStay(t *testing.T) {
	t.Parallel()
	b := NewBuilder(DefaultSettings(), testMesh())
	one, _ := b.Apply(present(istioObject(t, KindSidecar, "ns1/a", 1, `{}`), istioObject(t, KindSidecar, "ns1/b", 2, `{}`)), nil)
	two, _ := b.Apply(present(istioObject(t, KindSidecar, "ns1/b", 2, `{egress: [{hosts: ["./*"]}]}`)), nil)
	before, after := NewReader(one, nil).Sidecars("ns1"), NewReader(two, nil).Sidecars("ns1")
	if before[0] != after[0] || before[1] == after[1] {
		t.Error("rows are kept or renewed wrongly")
	}
}

func TestPeerAuthentications(t *testing.T) {
	t.Parallel()
	r := readerOf(
		t,
		istioObject(t, KindPeerAuthentication, "ns1/new", 2, `{mtls: {mode: DISABLE}}`),
		istioObject(t, KindPeerAuthentication, "ns1/old", 1, `
selector: {matchLabels: {app: a}}
mtls: {mode: STRICT}
portLevelMtls: {"8080": {mode: DISABLE}, "9090": {mode: UNSET}}
`),
	)
	list := r.PeerAuthentications("ns1")
	if len(list) != 2 || list[0].Name != "old" || list[0].Mode() != MTLSStrict || list[1].Mode() != MTLSDisable {
		t.Fatalf("policies %v", list)
	}
	if want := map[uint32]MTLSMode{8080: MTLSDisable, 9090: MTLSUnset}; !maps.Equal(list[0].Ports(), want) {
		t.Errorf("ports %v", list[0].Ports())
	}
	if (*PeerAuthentication)(nil).Mode() != MTLSUnset || (*PeerAuthentication)(nil).Ports() != nil {
		t.Error("no policy is not unset")
	}
}

// userLabels returns the tested labels without those that are always tested.
func userLabels(r *Reader) string {
	tested := maps.Clone(r.TestedLabels())
	for _, k := range alwaysTestedLabels() {
		delete(tested, k)
	}
	return strings.Join(slices.Sorted(maps.Keys(tested)), " ")
}

func TestTestedLabels(t *testing.T) {
	t.Parallel()
	b := NewBuilder(DefaultSettings(), testMesh())
	pc, keys := b.Apply(nil, nil)
	if userLabels(NewReader(pc, nil)) != "" || len(NewReader(pc, nil).TestedLabels()) == 0 || !hasKey(keys, TableTestedLabels, "") {
		t.Errorf("at first: %v, keys %v", NewReader(pc, nil).TestedLabels(), keys)
	}
	pc, _ = b.Apply(present(
		istioObject(t, KindSidecar, "n/a", 1, `{workloadSelector: {labels: {sidecar: a}}}`),
		istioObject(t, KindGateway, "n/a", 1, `{selector: {istio: gw}}`),
		istioObject(t, KindPeerAuthentication, "n/a", 1, `{selector: {matchLabels: {peer: a}}}`),
		istioObject(t, KindAuthorizationPolicy, "n/a", 1, `{selector: {matchLabels: {authz: a}}}`),
		istioObject(t, KindVirtualService, "n/a", 1, `
hosts: [a.com]
http: [{match: [{sourceLabels: {http: a}}]}]
tcp: [{match: [{sourceLabels: {tcp: a}}]}]
tls: [{match: [{sourceLabels: {tls: a}}]}]
`),
		istioObject(t, KindDestinationRule, "n/a", 1, `
host: a
workloadSelector: {matchLabels: {rule: a}}
trafficPolicy:
  loadBalancer: {localityLbSetting: {failoverPriority: [top, "pair=1"]}}
  portLevelSettings: [{port: {number: 80}, loadBalancer: {localityLbSetting: {failoverPriority: [port]}}}]
subsets: [{name: v1, labels: {version: v1}, trafficPolicy: {loadBalancer: {localityLbSetting: {failoverPriority: [subset]}}}}]
`),
	), nil)
	want := "authz http istio pair peer port rule sidecar subset tcp tls top"
	if got := userLabels(NewReader(pc, nil)); got != want {
		t.Errorf("tested %s, want %s", got, want)
	}
	twin := istioObject(t, KindSidecar, "m/b", 1, `{workloadSelector: {labels: {sidecar: b}}}`)
	if _, keys = b.Apply(present(twin), nil); hasKey(keys, TableTestedLabels, "") {
		t.Error("reported though the set of keys stayed")
	}
	if _, keys = b.Apply([]Event{{Key: ObjectKey{KindSidecar, "n", "a"}}}, nil); hasKey(keys, TableTestedLabels, "") {
		t.Error("reported though another object still tests the key")
	}
	pc, keys = b.Apply([]Event{{Key: twin.ObjectKey}}, nil)
	if !hasKey(keys, TableTestedLabels, "") || strings.Contains(userLabels(NewReader(pc, nil)), "sidecar") {
		t.Error("the last user went unnoticed")
	}
	m := testMesh()
	m.Config = &mesh.MeshConfig{LocalityLbSetting: &networking.LocalityLoadBalancerSetting{FailoverPriority: []string{"mesh=1"}}}
	pc, keys = b.Apply(nil, m)
	if !hasKey(keys, TableTestedLabels, "") || !strings.Contains(userLabels(NewReader(pc, nil)), "mesh") {
		t.Error("the mesh's own priorities went unnoticed")
	}
}
