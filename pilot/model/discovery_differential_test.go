package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pkg/cell"
	"github.com/mizzen-mesh/mizzen/pkg/store"
	"pgregory.net/rapid"
)

// jsonText writes a value by content.
func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func tableText[V any](t store.Table[V]) string {
	out := map[string]V{}
	for k, v := range t.All() {
		out[k] = v
	}
	return jsonText(out)
}

// discoveryTables are all the derived tables of discovery as text, by name.
func discoveryTables(pc *PushContext) map[string]string {
	hidden := map[string]string{}
	for k, x := range pc.workloads.All() {
		hidden[k] = fmt.Sprint(x.tlsMode, x.network, x.hostname, x.subdomain, x.canonicalName, x.canonicalRevision, x.weight, x.labelled)
	}
	return map[string]string{
		"services": tableText(pc.services), "hosts": tableText(pc.hosts), "public": jsonText(append([]*Service{}, pc.publicSvcs...)),
		"exported": tableText(pc.exportedSvcs), "endpoints": tableText(pc.endpoints), "aliases": tableText(pc.aliases),
		"workloads": tableText(pc.workloads), "addresses": tableText(pc.workloadIPs), "targets": tableText(pc.targets),
		"hidden": jsonText(hidden),
	}
}

// discoveryQuestion is one question to a reader. An exact one reads the row exact alone, so that the row may count as
// changed only if the answer is another.
type discoveryQuestion struct {
	ask   func(*Reader) any
	exact *cell.Key
}

func discoveryQuestions() map[string]discoveryQuestion {
	q := map[string]discoveryQuestion{}
	exact := func(table cell.Table, row string, ask func(*Reader) any) {
		q[fmt.Sprint(table, " ", row)] = discoveryQuestion{ask, &cell.Key{Table: table, Name: row}}
	}
	namespaces := append(drawnNamespaces(), "stranger")
	hosts := drawnServiceHosts()
	for _, ns := range namespaces {
		exact(TableNamespaceService, ns, func(r *Reader) any { return r.NamespaceServices(ns) })
		q["visible "+ns] = discoveryQuestion{ask: func(r *Reader) any {
			exported, public := r.VisibleServices(ns)
			return []any{exported, public}
		}}
		for _, host := range hosts {
			k := ServiceKey{host, ns}
			exact(TableService, k.String(), func(r *Reader) any { return r.Service(k) })
			exact(TableEndpoints, k.String(), func(r *Reader) any { return r.Endpoints(k) })
			exact(TableAccounts, k.String(), func(r *Reader) any { return r.ServiceAccounts(k) })
			exact(TableAliases, k.String(), func(r *Reader) any { return r.Aliases(k) })
		}
		for _, name := range drawnPods() {
			exact(TableWorkload, "Kubernetes/"+ns+"/"+name, func(r *Reader) any { return workloadAnswer(r.Workload("", ns, name)) })
			for _, ip := range drawnIPs() {
				q["targets "+ns+name+ip] = discoveryQuestion{ask: func(r *Reader) any {
					return r.ServiceTargets(TargetQuery{
						Namespace: ns, ProxyName: name, IPs: []string{ip}, Labels: map[string]string{"app": "1"},
						PodPorts: map[string]uint32{"web/TCP": 7070},
					})
				}}
			}
		}
	}
	for _, host := range hosts {
		q["host "+host] = discoveryQuestion{ask: func(r *Reader) any { return r.ServicesOfHost(host) }}
	}
	for _, ip := range drawnIPs() {
		q["address "+ip] = discoveryQuestion{ask: func(r *Reader) any {
			return jsonText(r.WorkloadsByIP(ip))
		}}
	}
	return q
}

func workloadAnswer(x *Workload) any {
	if x == nil {
		return nil
	}
	return []any{x, fmt.Sprintf("%+v", *x)}
}

func drawDiscoveryMesh(t *rapid.T) *Mesh {
	m := testMesh()
	m.DefaultServiceExportTo = rapid.SampledFrom([][]string{nil, {"*"}, {"."}}).Draw(t, "default of services")
	m.Config = &mesh.MeshConfig{
		RootNamespace: "istio-system",
		TrustDomain:   rapid.SampledFrom([]string{"cluster.local", "td"}).Draw(t, "trust domain"),
	}
	if rapid.Bool().Draw(t, "alias") {
		m.Config.TrustDomainAliases = []string{"old"}
	}
	if rapid.Bool().Draw(t, "narrow") {
		m.Config.ServiceEntryVisibility = &mesh.ServiceEntryVisibility{
			ApplyToSidecars: true, DefaultVisibility: mesh.ServiceEntryVisibility_NAMESPACE,
			Policies: []*mesh.ServiceEntryVisibility_Policy{{
				Visibility: mesh.ServiceEntryVisibility_PUBLIC,
				MatchingRules: []*mesh.ServiceEntryVisibility_MatchRule{{
					Matcher: &mesh.ServiceEntryVisibility_MatchRule_NamespaceSelector{
						NamespaceSelector: &mesh.LabelSelector{MatchLabels: map[string]string{"share": "all"}},
					},
				}},
			}},
		}
	}
	if rapid.Bool().Draw(t, "networks") {
		m.Networks = &mesh.MeshNetworks{Networks: map[string]*mesh.Network{"lan": {Endpoints: []*mesh.Network_NetworkEndpoints{
			{Ne: &mesh.Network_NetworkEndpoints_FromCidr{FromCidr: "10.0.0.0/31"}},
		}}}}
	}
	return m
}

// TestDiscoveryIncrementalEqualsFromScratch applies histories one by one. After each step all tables are those of a
// builder that got the last state at once, an answer differs only if a row it read counts as changed, and a row that
// counts as changed does differ.
func TestDiscoveryIncrementalEqualsFromScratch(t *testing.T) {
	t.Parallel()
	asked := discoveryQuestions()
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(asked)
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			events := rapid.SliceOfN(rapid.Custom(drawDiscoveryEvent), 0, 4).Draw(t, "events")
			var change *Mesh
			if rapid.IntRange(0, 9).Draw(t, "mesh") == 0 {
				change = drawDiscoveryMesh(t)
			}
			h.step(t, events, change)
		}
	})
}

// history is a builder that is watched: cells hold the answers to all questions.
type history struct {
	b     *Builder
	mesh  *Mesh
	asked map[string]discoveryQuestion
	world map[ObjectKey]*Object
	graph *cell.Graph
	last  map[string]string
}

func newHistory(asked map[string]discoveryQuestion) *history {
	h := &history{mesh: testMesh(), asked: asked, world: map[ObjectKey]*Object{}, graph: cell.New(), last: map[string]string{}}
	h.b = NewBuilder(DefaultSettings(), h.mesh)
	h.graph.Define(1, func(rec *cell.Recorder, id cell.ID, _ cell.Env) any {
		name, _ := id.Arg.(string)
		return jsonText(h.asked[name].ask(NewReader(h.b.Current(), rec)))
	}, nil)
	return h
}

func (h *history) step(t *rapid.T, events []Event, change *Mesh) {
	if change != nil {
		h.mesh = change
	}
	_, keys := h.b.Apply(events, change)
	for _, e := range events {
		if h.world[e.Key] = e.Object; e.Object == nil {
			delete(h.world, e.Key)
		}
	}
	h.graph.Invalidate(keys)
	scratch := NewBuilder(DefaultSettings(), h.mesh)
	scratch.Apply(present(slices.Collect(maps.Values(h.world))...), nil)
	want := discoveryTables(scratch.Current())
	for name, got := range discoveryTables(h.b.Current()) {
		if got != want[name] {
			t.Fatalf("%s: incremental\n%s\nfrom scratch\n%s", name, got, want[name])
		}
	}
	for name, q := range h.asked {
		now := jsonText(q.ask(NewReader(h.b.Current(), nil)))
		if got := h.graph.Get(nil, cell.ID{Kind: 1, Arg: name}, world0{}).Value(); got != now {
			t.Fatalf("%s: changed without a changed key\n%s\nnow\n%s", name, got, now)
		}
		last, known := h.last[name]
		if known && q.exact != nil && last == now && hasKey(keys, q.exact.Table, q.exact.Name) {
			t.Fatalf("%s: key counts as changed, the answer is still\n%s", name, now)
		}
		h.last[name] = now
	}
}
