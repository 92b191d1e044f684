package fault

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// process is the binary, running.
type process struct {
	*testing.T
	xds, monitoring string
}

// startProcess builds and starts the control plane on a directory, and waits until it is ready.
func startProcess(t *testing.T, dir string) *process {
	t.Helper()
	binary, err := harness.BuildBinary(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := &process{T: t, xds: harness.NewPort(t).Address(), monitoring: harness.NewPort(t).Address()}
	c := exec.Command(binary, "discovery", "--configDir", dir, "--grpcAddr", p.xds, "--monitoringAddr", p.monitoring,
		"--httpAddr=", "--httpsAddr=", "--secureGRPCAddr=", "--log_output_level=default:error")
	c.Stderr, c.WaitDelay = t.Output(), time.Second
	c.Env = append(os.Environ(), "PILOT_MAX_REQUESTS_PER_SECOND=100000")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	t.Cleanup(func() {
		select {
		case err := <-ended:
			t.Errorf("the control plane has ended: %v", err)
		default:
			_ = c.Process.Kill()
			<-ended
		}
	})
	harness.Eventually(t, 60*time.Second, func(ctx context.Context) error { _, err := p.get(ctx, "/ready"); return err })
	return p
}

func (p *process) get(ctx context.Context, path string) ([]byte, error) {
	return harness.Fetch(ctx, "http://"+p.monitoring+path)
}

// collected has the process collect its garbage and reads its metrics.
func (p *process) collected(ctx context.Context) (metrics, error) {
	for range 3 { // cleanups run after one collection, and what they let go of goes with the next
		if _, err := p.get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
			return nil, err
		}
	}
	text, err := p.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	return parseMetrics(text)
}
