package envoy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

func withVHDS(m model.VHDSMode) func(*model.Settings) {
	return func(s *model.Settings) { s.VHDS = m }
}

// further returns n more services that callers can reach on the mesh's port.
func further(p world.Ports, n int) string {
	var b strings.Builder
	b.WriteString("# services\n")
	for i := range n {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {name: further-%d, namespace: %s}\n"+
			"spec: {clusterIP: 10.97.%d.%d, ports: [{name: http, port: %d}]}\n", i, world.Namespace, i/250, i%250+1, p.Service)
	}
	return b.String()
}

// routeNames returns the route configurations that the active listeners of an Envoy name, and those that it holds.
func routeNames(ctx context.Context, e *harness.Envoy) (named, held []string, err error) {
	dump, err := e.ConfigDump(ctx, false)
	if err != nil {
		return nil, nil, err
	}
	configs, _ := dump["configs"].([]any)
	for _, c := range configs {
		section, _ := c.(map[string]any)
		listeners, _ := section["dynamic_listeners"].([]any)
		for _, l := range listeners {
			if state, _ := l.(map[string]any)["active_state"].(map[string]any); state != nil {
				named = append(named, valuesOf(state, "route_config_name")...)
			}
		}
		routes, _ := section["dynamic_route_configs"].([]any)
		for _, r := range routes {
			if rc, _ := r.(map[string]any)["route_config"].(map[string]any); rc != nil {
				held = append(held, fmt.Sprint(rc["name"]))
			}
		}
	}
	return named, held, nil
}

// valuesOf returns the strings under a key, at any depth.
func valuesOf(v any, key string) (out []string) {
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			out = append(out, valuesOf(x, key)...)
		}
	case map[string]any:
		for k, x := range v {
			if s, ok := x.(string); ok && k == key {
				out = append(out, s)
			}
			out = append(out, valuesOf(x, key)...)
		}
	}
	return out
}

// usesRoute waits until the caller's sidecar takes requests by the mesh port's route configuration of that suffix.
func usesRoute(m *world.Mesh, suffix string) func(context.Context) error {
	want := fmt.Sprint(m.Ports.Service) + suffix
	return func(ctx context.Context) error {
		named, held, err := routeNames(ctx, m.Caller)
		if err == nil && (!slices.Equal(named, []string{want}) || !slices.Contains(held, want)) {
			err = fmt.Errorf("listeners name %v, there are %v; want %s", named, held, want)
		}
		return err
	}
}

// answersOf asks everything that the rules of answers.yaml tell apart.
func answersOf(t *testing.T, m *world.Mesh) map[string]string {
	t.Helper()
	port := fmt.Sprint(":", m.Ports.Service)
	out := map[string]string{}
	for _, host := range []string{
		"reviews.demo.svc.cluster.local", "ratings.demo.svc.cluster.local", "ratings", "ratings.demo", "ratings.demo.svc", "ratings.demo.svc.cluster.local.",
		"10.96.0.20", "a.wild.example", "RATINGS", "further-3", "nobody.example", "ratings.other",
	} {
		for _, suffix := range []string{"", port, ":1"} {
			for _, path := range []string{"/", "/only/v1", "/only/v2", "/redirect/a", "/direct", "/rewrite/b?c=d", "/header", "/weights", "/mirror"} {
				r, err := m.Client.Do(context.Background(), harness.Request{URL: strings.TrimSuffix(m.URL(), "/") + path, Host: host + suffix})
				answer := fmt.Sprint(err)
				if err == nil {
					answer = fmt.Sprintf("%d %s %q %s %s %s", r.Status, r.Header.Get("Location"), r.Header.Get("X-Rule"), r.Echo.Backend, r.Echo.Host, r.Echo.Path)
					if r.Echo.Backend == "" {
						answer += " " + r.Body
					}
				}
				out[host+suffix+path] = answer
			}
		}
	}
	return out
}

// answers are the rules that answersOf tries. Their answers do not depend on chance.
func answers(p world.Ports) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: ratings, namespace: demo}
spec: {clusterIP: 10.96.0.20, ports: [{name: http, port: %[1]d}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: wild, namespace: demo}
spec:
  hosts: ["*.wild.example"]
  resolution: STATIC
  ports: [{number: %[1]d, name: http, protocol: HTTP}]
  endpoints: [{address: %[2]s}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ratings, namespace: demo}
spec:
  hosts: [ratings]
  http:
  - {match: [{uri: {prefix: /only/v1}}], route: [{destination: {host: reviews, subset: v1}}]}
  - {match: [{uri: {regex: "/only/v[2-9]"}}], route: [{destination: {host: reviews, subset: v2}}]}
  - {match: [{uri: {prefix: /redirect}}], redirect: {uri: /there, authority: else.example, redirectCode: 307}}
  - {match: [{uri: {exact: /direct}}], directResponse: {status: 418, body: {string: "short and stout"}}}
  - {match: [{uri: {prefix: /rewrite}}], rewrite: {uri: /rewritten, authority: new.example}, route: [{destination: {host: reviews, subset: v1}}]}
  - {match: [{uri: {prefix: /header}}], headers: {response: {set: {x-rule: header}}}, route: [{destination: {host: reviews, subset: v2}}]}
  - {match: [{uri: {prefix: /weights}}], route: [{destination: {host: reviews, subset: v1}, weight: 0}, {destination: {host: reviews, subset: v2}, weight: 100}]}
  - {match: [{uri: {prefix: /mirror}}], mirror: {host: reviews, subset: v1}, route: [{destination: {host: reviews, subset: v2}}]}
  - {route: [{destination: {host: reviews, subset: v1}}]}
`, p.Service, world.VersionIP(2))
}

// The same requests get the same answers, with virtual hosts sent apart and without; also those to a service that was
// removed since.
func TestVHDSAnswersTheSame(t *testing.T) {
	t.Parallel()
	dir, ports := prepared(t, 2)
	base := strings.Replace(world.Base(ports, 2), "  egress:\n  - port:", "  outboundTrafficPolicy: {mode: REGISTRY_ONLY}\n  egress:\n  - port:", 1)
	write(t, dir, "base.yaml", base)
	write(t, dir, "route.yaml", world.Split(100, 0))
	got := map[model.VHDSMode][2]map[string]string{}
	for _, mode := range []model.VHDSMode{model.VHDSOff, model.VHDSOn} {
		write(t, dir, "answers.yaml", answers(ports))
		write(t, dir, "further.yaml", further(ports, 5))
		p := startPlane(t, dir, "127.0.0.1:0", withVHDS(mode))
		m := startMesh(t, world.Options{Dir: dir, Versions: 2, Address: p.GRPC.String(), SidecarsOff: true}, ports)
		suffix := map[model.VHDSMode]string{model.VHDSOn: "~vhds"}[mode]
		if err := usesRoute(m, suffix)(context.Background()); err != nil {
			t.Error(err)
		}
		before := answersOf(t, m)
		if a := before["ratings/direct"]; !strings.HasPrefix(a, "418") {
			t.Errorf("%s: /direct is answered %s", mode, a)
		}
		write(t, dir, "answers.yaml", "# nothing\n")
		harness.Eventually(t, 10*time.Second, func(ctx context.Context) error {
			r, err := m.Client.Get(ctx, m.URL()+"direct", "ratings")
			if err == nil && r.Status != 502 {
				err = fmt.Errorf("a removed service answers %d", r.Status)
			}
			return err
		})
		got[mode] = [2]map[string]string{before, answersOf(t, m)}
		noRejections(t, m)
		if dump := p.get("/debug/config_dump?proxyID=caller"); !strings.Contains(dump, "further-3.demo.svc.cluster.local") {
			t.Errorf("%s: the debug dump holds no virtual host of a further service: %.2000s", mode, dump)
		}
		m.Close()
	}
	for i, what := range []string{"with", "without"} {
		off, on := got[model.VHDSOff][i], got[model.VHDSOn][i]
		codes := map[string]int{}
		for request, answer := range off {
			if on[request] != answer {
				t.Errorf("%s the rules, %s is answered %q, by VHDS %q", what, request, answer, on[request])
			}
			codes[answer[:3]]++
		}
		t.Logf("%s the rules: %d requests, by status %v", what, len(off), codes)
		if i == 0 && !slices.Equal(slices.Sorted(maps.Keys(codes)), []string{"200", "307", "418", "502", "503"}) {
			t.Errorf("the requests do not try everything: %v", codes)
		}
	}
}

// One edited VirtualService costs a proxy no more than its own virtual host.
func TestVHDSBytesOfOneEdit(t *testing.T) {
	t.Parallel()
	cost := map[model.VHDSMode]int64{}
	for _, mode := range []model.VHDSMode{model.VHDSOff, model.VHDSOn} {
		dir, ports := prepared(t, 2)
		write(t, dir, "further.yaml", further(ports, 200))
		p := startPlane(t, dir, "127.0.0.1:0", withVHDS(mode))
		r := newRelay(t, p.GRPC.String())
		m := startMesh(t, world.Options{Dir: dir, Versions: 2, Address: r.address(), SidecarsOff: true}, ports)
		before, calm := r.sent.Load(), 0
		harness.Eventually(t, 20*time.Second, func(context.Context) error {
			if now := r.sent.Load(); now != before {
				before, calm = now, 0
			}
			if calm++; calm < 20 {
				return errors.New("something is still being sent")
			}
			return nil
		})
		write(t, dir, "route.yaml", world.Split(0, 100))
		harness.Eventually(t, 10*time.Second, goesOnlyTo(m, "v2"))
		cost[mode] = r.sent.Load() - before
		t.Logf("VHDS %s: %d bytes for one edit of a VirtualService among 201 services; %d in all before", mode, cost[mode], before)
		noRejections(t, m)
	}
	if cost[model.VHDSOn] > 3<<10 || cost[model.VHDSOff] < 10*cost[model.VHDSOn] {
		t.Errorf("one edit costs %d bytes with VHDS, %d without", cost[model.VHDSOn], cost[model.VHDSOff])
	}
}

// A mesh that grows beyond the size from which virtual hosts are sent apart, and shrinks again, under load.
func TestVHDSAutoFailsNoRequest(t *testing.T) {
	t.Parallel()
	p, m := small(t, 2, withVHDS(model.VHDSAuto))
	harness.Eventually(t, 10*time.Second, usesRoute(m, ""))
	stop := load(t, m)
	for range 2 {
		write(t, p.dir, "further.yaml", further(m.Ports, 105))
		harness.Eventually(t, 20*time.Second, usesRoute(m, "~vhds"))
		write(t, p.dir, "route.yaml", world.Split(0, 100))
		harness.Eventually(t, 10*time.Second, goesOnlyTo(m, "v2"))
		write(t, p.dir, "further.yaml", further(m.Ports, 5))
		harness.Eventually(t, 20*time.Second, usesRoute(m, ""))
		write(t, p.dir, "route.yaml", world.Split(100, 0))
		harness.Eventually(t, 10*time.Second, goesOnlyTo(m, "v1"))
	}
	stop()
	noRejections(t, m)
}

// Twenty edits of one virtual host by VHDS, under load.
func TestVHDSWeightEditsFailNoRequest(t *testing.T) {
	t.Parallel()
	p, m := small(t, 2, withVHDS(model.VHDSOn))
	stop := load(t, m)
	for i := range 20 {
		w := (i * 37) % 101
		write(t, p.dir, "route.yaml", world.Split(w, 100-w))
		harness.Eventually(t, 10*time.Second, func(ctx context.Context) error { return committedSince(ctx, p, i) })
	}
	write(t, p.dir, "route.yaml", world.Split(0, 100))
	harness.Eventually(t, 10*time.Second, goesOnlyTo(m, "v2"))
	stop()
	noRejections(t, m)
	stats, err := m.Caller.Stats(context.Background(), `rds\.vhds\..*config_reload$`)
	if err != nil {
		t.Fatal(err)
	}
	for name, n := range stats {
		t.Logf("%s is %d", name, n)
		if n < 2 || n > 40 {
			t.Errorf("the virtual hosts were loaded %d times", n)
		}
	}
	if len(stats) != 1 {
		t.Errorf("loads of virtual hosts: %v", stats)
	}
}

// The control plane dies and comes back under load, with VHDS on, and with another mode than before.
func TestVHDSControlPlaneRestartFailsNoRequest(t *testing.T) {
	t.Parallel()
	dir, ports := prepared(t, 2)
	binary := buildBinary(t)
	port := harness.NewPort(t)
	proc := startBinary(t, binary, dir, port.Address(), "MIZZEN_VHDS=on")
	m := startMesh(t, world.Options{Dir: dir, Versions: 2, Address: port.Address()}, ports)
	stop := load(t, m)
	for i, mode := range []string{"on", "off", "auto", "on"} {
		if err := proc.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := proc.Wait(); err == nil {
			t.Fatal("the killed control plane ended well")
		}
		proc = startBinary(t, binary, dir, port.Address(), "MIZZEN_VHDS="+mode)
		harness.Eventually(t, 30*time.Second, func(ctx context.Context) error {
			n, err := m.Caller.Stat(ctx, "control_plane.connected_state")
			if err == nil && n != 1 {
				err = errors.New("the caller's sidecar is not connected")
			}
			return err
		})
		suffix := map[string]string{"on": "~vhds"}[mode]
		harness.Eventually(t, 20*time.Second, usesRoute(m, suffix))
		version := []string{"v1", "v2"}[i%2]
		write(t, dir, "route.yaml", world.Split(100*(1-i%2), 100*(i%2)))
		harness.Eventually(t, 30*time.Second, goesOnlyTo(m, version))
	}
	stop()
	noRejections(t, m)
}

// An Envoy that speaks the state of the world, in which there is no VHDS, gets whole route configurations all the same.
func TestVHDSIsNotForTheStateOfTheWorld(t *testing.T) {
	t.Parallel()
	dir, ports := prepared(t, 2)
	p := startPlane(t, dir, "127.0.0.1:0", withVHDS(model.VHDSOn))
	m := startMesh(t, world.Options{
		Dir: dir, Versions: 2, Address: p.GRPC.String(), SidecarsOff: true, Protocol: harness.SotWXDS,
	}, ports)
	if err := usesRoute(m, "")(context.Background()); err != nil {
		t.Error(err)
	}
	noRejections(t, m)
}

// A route configuration that Envoy has given up, with its virtual hosts, is complete when it comes again, also on another
// stream: Envoy goes on to say that it holds them.
func TestVHDSRouteComesAgain(t *testing.T) {
	t.Parallel()
	dir, ports := prepared(t, 2)
	write(t, dir, "further.yaml", further(ports, 105))
	write(t, dir, "route.yaml", world.Split(100, 0))
	p := startPlane(t, dir, "127.0.0.1:0", withVHDS(model.VHDSAuto))
	r := newRelay(t, p.GRPC.String())
	m := startMesh(t, world.Options{
		Dir: dir, Versions: 2, Address: r.address(), SidecarsOff: true, Args: []string{"--drain-time-s", "1", "--drain-strategy", "immediate"},
	}, ports)
	name := fmt.Sprint(ports.Service, "~vhds")
	for _, cut := range []bool{false, true} {
		harness.Eventually(t, 20*time.Second, usesRoute(m, "~vhds"))
		harness.Eventually(t, 10*time.Second, goesOnlyTo(m, "v1"))
		write(t, dir, "further.yaml", further(ports, 5))
		harness.Eventually(t, 20*time.Second, func(ctx context.Context) error {
			_, held, err := routeNames(ctx, m.Caller)
			if err == nil && slices.Contains(held, name) {
				err = fmt.Errorf("Envoy still holds %v", held)
			}
			return err
		})
		if cut {
			streams, err := m.Caller.Stat(context.Background(), "cluster."+harness.XDSCluster+".upstream_cx_total")
			if err != nil {
				t.Fatal(err)
			}
			r.cut()
			harness.Eventually(t, 20*time.Second, func(ctx context.Context) error {
				n, err := m.Caller.Stat(ctx, "cluster."+harness.XDSCluster+".upstream_cx_total")
				if err == nil && n <= streams {
					err = errors.New("no new connection yet")
				}
				return err
			})
		}
		write(t, dir, "further.yaml", further(ports, 105))
		harness.Eventually(t, 20*time.Second, usesRoute(m, "~vhds"))
		harness.Eventually(t, 10*time.Second, goesOnlyTo(m, "v1"))
	}
	noRejections(t, m)
}
