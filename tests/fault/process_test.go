package fault

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
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
	root, err := harness.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "mizzen")
	build := exec.Command("go", "build", "-o", binary, "./cmd/mizzen")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, text)
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
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.monitoring+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %s", path, resp.StatusCode, body)
	}
	return body, err
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
