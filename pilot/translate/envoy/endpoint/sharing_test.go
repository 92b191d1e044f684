package endpoint_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// TestAssignmentsAreSharedAsFarAsTheyAreTheSame checks which properties of the proxy an assignment asks for: each one
// computes and keeps it once for every value.
func TestAssignmentsAreSharedAsFarAsTheyAreTheSame(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		archive, cluster string
		want             []cell.Prop
	}{
		{"health", "outbound|80||api.shop.svc.cluster.local", nil},
		{"health", "outbound|80|v1|api.shop.svc.cluster.local", nil},
		{"health", "outbound|80||nobody.shop.svc.cluster.local", nil},
		{"locality", "outbound|80||plain.shop.svc.cluster.local", nil},
		{"locality", "outbound|80||place.shop.svc.cluster.local", []cell.Prop{view.PropLocality}},
		{"locality", "outbound|80||weights.shop.svc.cluster.local", []cell.Prop{view.PropLocality}},
		{"locality", "outbound|80||near.shop.svc.cluster.local", []cell.Prop{view.PropLocality, view.PropNetwork}},
		{"locality", "outbound|80||labels.shop.svc.cluster.local", []cell.Prop{view.PropLocality, view.PropLabels}},
	} {
		a, err := txtar.ParseFile("testdata/" + c.archive + ".txtar")
		if err != nil {
			t.Fatal(err)
		}
		pc := world(t, a)
		for _, f := range a.Files {
			if f.Name != "web.node.yaml" && f.Name != "eu.node.yaml" {
				continue
			}
			var want cell.Mask
			for _, p := range c.want {
				want |= 1 << p
			}
			rec := &cell.Recorder{}
			assignment(t, pc, fixture.Proxy(t, f.Data), rec, c.cluster)
			if got := rec.Mask(); got != want {
				t.Errorf("%s asks for properties %b, want %b", c.cluster, got, want)
			}
		}
	}
}

func BenchmarkAssignment(b *testing.B) {
	a, err := txtar.ParseFile("testdata/locality.txtar")
	if err != nil {
		b.Fatal(err)
	}
	pc, p := world(b, a), fixture.Proxy(b, fixture.File(a, "eu.node.yaml"))
	for _, name := range []string{"plain", "near"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				assignment(b, pc, p, &cell.Recorder{}, "outbound|80||"+name+".shop.svc.cluster.local")
			}
		})
	}
}
