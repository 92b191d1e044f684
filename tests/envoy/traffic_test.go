package envoy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// goesOnlyTo fails until 30 requests in a row are answered by one version.
func goesOnlyTo(m *world.Mesh, version string) func(context.Context) error {
	return func(ctx context.Context) error {
		for range 30 {
			v, err := m.Call(ctx)
			if err != nil {
				return err
			}
			if v != version {
				return fmt.Errorf("%s answered, want %s only", v, version)
			}
		}
		return nil
	}
}

// Requests follow the weights, and an edit comes into force without a rejected resource.
func TestTrafficFollowsTheWeights(t *testing.T) {
	t.Parallel()
	p, m := small(t, 2, nil)
	counts := m.Count(context.Background(), 200)
	if counts["v1"] < 60 || counts["v2"] < 60 || counts["v1"]+counts["v2"] != 200 {
		t.Errorf("an even split gave %v", counts)
	}
	write(t, p.dir, "route.yaml", world.Split(0, 100))
	harness.Eventually(t, 10*time.Second, goesOnlyTo(m, "v2"))
	write(t, p.dir, "route.yaml", world.Split(100, 0))
	harness.Eventually(t, 10*time.Second, goesOnlyTo(m, "v1"))
	noRejections(t, m)
}

// G4: fifty edits of the weights under 200 requests a second through two Envoys, and no request fails.
func TestWeightEditsFailNoRequest(t *testing.T) {
	t.Parallel()
	p, m := small(t, 2, nil)
	stop := load(t, m)
	for i := range 50 {
		w := (i * 37) % 101
		write(t, p.dir, "route.yaml", world.Split(w, 100-w))
		harness.Eventually(t, 10*time.Second, func(ctx context.Context) error { return committedSince(ctx, p, i) })
	}
	write(t, p.dir, "route.yaml", world.Split(0, 100))
	harness.Eventually(t, 10*time.Second, goesOnlyTo(m, "v2"))
	stop()
	noRejections(t, m)
}

// committedSince waits until at least n+2 generations exist, so that edits are not all batched into one.
func committedSince(_ context.Context, p *plane, n int) error {
	if g := p.Generation(); g < uint64(n)+2 {
		return fmt.Errorf("generation %d", g)
	}
	return nil
}

// Subsets renamed and re-pointed, endpoints that leave and come back, under load: no request fails.
func TestClusterAndEndpointEditsFailNoRequest(t *testing.T) {
	t.Parallel()
	p, m := small(t, 3, nil)
	stop := load(t, m)
	route := func(subsets ...string) string {
		s := "apiVersion: networking.istio.io/v1\nkind: VirtualService\nmetadata: {name: reviews, namespace: demo}\nspec:\n  hosts: [reviews]\n  http:\n  - route:\n"
		for _, n := range subsets {
			s += fmt.Sprintf("    - {destination: {host: reviews, subset: %s}, weight: %d}\n", n, 100/len(subsets))
		}
		return s
	}
	rule := func(subsets map[string]string) string {
		s := "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata: {name: reviews, namespace: demo}\nspec:\n  host: reviews\n  subsets:\n"
		for n, v := range subsets {
			s += fmt.Sprintf("  - {name: %s, labels: {version: %s}}\n", n, v)
		}
		return s
	}
	for i := range 6 {
		fresh := fmt.Sprintf("gen%d", i)
		version := fmt.Sprintf("v%d", i%3+1)
		// Both files change at once: the new route names a cluster that only the new rule makes, and the old one goes.
		write(t, p.dir, "rule.yaml", rule(map[string]string{fresh: version}))
		write(t, p.dir, "route.yaml", route(fresh))
		harness.Eventually(t, 15*time.Second, goesOnlyTo(m, version))
	}
	write(t, p.dir, "rule.yaml", rule(map[string]string{"a": "v1", "b": "v2"}))
	write(t, p.dir, "route.yaml", route("a", "b"))
	harness.Eventually(t, 15*time.Second, func(ctx context.Context) error {
		c := m.Count(ctx, 40)
		if c["v1"] == 0 || c["v2"] == 0 || c["v3"] > 0 {
			return fmt.Errorf("split %v", c)
		}
		return nil
	})
	stop()
	noRejections(t, m)
}

// G1, G8: the control plane dies and comes back under load, twice, and no request fails; then an edit still arrives.
func TestControlPlaneRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	dir, ports := prepared(t, 2)
	binary := buildBinary(t)
	port := harness.NewPort(t)
	proc := startBinary(t, binary, dir, port.Address())
	m := startMesh(t, world.Options{Dir: dir, Versions: 2, Address: port.Address()}, ports)
	stop := load(t, m)
	for range 2 {
		if err := proc.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := proc.Wait(); err == nil {
			t.Fatal("the killed control plane ended well")
		}
		proc = startBinary(t, binary, dir, port.Address())
		harness.Eventually(t, 30*time.Second, func(ctx context.Context) error {
			n, err := m.Caller.Stat(ctx, "control_plane.connected_state")
			if err == nil && n != 1 {
				err = errors.New("the caller's sidecar is not connected")
			}
			return err
		})
	}
	write(t, dir, "route.yaml", world.Split(0, 100))
	harness.Eventually(t, 30*time.Second, goesOnlyTo(m, "v2"))
	stop()
	noRejections(t, m)
}
