package parity

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/accept"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// TestStockEnvoyAcceptsAll runs each scenario's sidecars as stock Envoys: every resource is accepted, and nothing of it is
// held back. Each Envoy has a network of its own, where it binds what its listeners say.
func TestStockEnvoyAcceptsAll(t *testing.T) {
	t.Parallel()
	dir := root(t)
	authority := harness.NewAuthority(t)
	for _, n := range chosen(t, dir, "") {
		t.Run(n, func(t *testing.T) {
			t.Parallel()
			s, err := loadScenario(filepath.Join(dir, n))
			if err != nil {
				t.Fatal(err)
			}
			for i := range s.proxies {
				if spec := &s.proxies[i]; spec.kind() == "sidecar" {
					t.Run(spec.Name, func(t *testing.T) {
						p := accept.New(t, accept.Options{Settings: s.settings, Mesh: s.mesh, Objects: s.objects, Node: spec.node, Authority: authority})
						harness.Eventually(t, 40*time.Second, p.Settled)
						if err := p.Refused(context.Background()); err != nil {
							t.Error(err)
						}
					})
				}
			}
		})
	}
}
