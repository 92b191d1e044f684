package envoy

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	planes "github.com/mizzen-mesh/mizzen/tests/plane"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// plane is a control plane in the test's process, on a directory.
type plane struct {
	*server.Server
	dir string
}

// startPlane starts a control plane as the binary does. change, if not nil, changes its settings and slots what it
// generates.
func startPlane(
	t *testing.T, dir, addr string, change func(*model.Settings), slots ...func([]*translate.Slot) []*translate.Slot,
) *plane {
	t.Helper()
	s := planes.Start(t, dir, func(o *server.Options) {
		o.GRPCAddr = addr
		if change != nil {
			change(o.Settings)
		}
		if os.Getenv("MIZZEN_TEST_DEBUG") != "" {
			o.Log = planes.Log(t, slog.LevelDebug)
		}
		if len(slots) > 0 {
			o.Slots = slots[0]
		}
	})
	p := &plane{s, dir}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("syncz: ", p.get("/debug/syncz"), "push_status: ", p.get("/debug/push_status"))
		}
		s.Stop()
	})
	return p
}

// get returns what the control plane answers at a path of its debug port.
func (p *plane) get(path string) string { return planes.Get(p.Server, path) }

// prepared returns a directory with the small mesh of package world.
func prepared(t *testing.T, versions int) (dir string, ports world.Ports) {
	t.Helper()
	dir = t.TempDir()
	ports, err := world.NewPorts()
	if err != nil {
		t.Fatal(err)
	}
	if err := world.Prepare(dir, ports, versions); err != nil {
		t.Fatal(err)
	}
	return dir, ports
}

// small starts a control plane and the small mesh of package world, and waits until requests succeed.
func small(t *testing.T, versions int, change func(*model.Settings)) (*plane, *world.Mesh) {
	t.Helper()
	dir, ports := prepared(t, versions)
	p := startPlane(t, dir, "127.0.0.1:0", change)
	return p, startMesh(t, world.Options{Dir: dir, Versions: versions, Address: p.GRPC.String()}, ports)
}

func startMesh(t *testing.T, o world.Options, ports world.Ports) *world.Mesh {
	t.Helper()
	harness.NeedTool(t, harness.EnvoyTool)
	m, err := world.Start(context.Background(), o, ports)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	harness.Eventually(t, 30*time.Second, func(ctx context.Context) error { _, err := m.Call(ctx); return err })
	return m
}

// noRejections fails the test if an Envoy has rejected anything.
func noRejections(t *testing.T, m *world.Mesh) {
	t.Helper()
	for _, e := range append([]*harness.Envoy{m.Caller}, m.Sidecars...) {
		if err := e.NoRejections(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := world.Write(dir, name, content); err != nil {
		t.Fatal(err)
	}
}

// load sends 200 requests a second until the returned function is called, which fails the test if one failed.
func load(t *testing.T, m *world.Mesh) (stop func()) {
	t.Helper()
	l := harness.NewLoad(t, harness.LoadOptions{Rate: 200}, harness.HTTPCall(m.Client, m.URL(), m.Authority()))
	return func() {
		t.Helper()
		r := l.Stop()
		t.Log(r)
		if r.Failed > 0 || r.Sent == 0 {
			t.Errorf("%d of %d requests failed: %v", r.Failed, r.Sent, r.Failures)
		}
	}
}
