package envoy

import (
	"context"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// buildBinary builds the control plane for this test.
func buildBinary(t *testing.T) string {
	t.Helper()
	binary, err := harness.BuildBinary(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// startBinary starts the control plane as a process of its own and waits until it listens. env are more variables,
// "NAME=value".
func startBinary(t *testing.T, binary, dir, addr string, env ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(binary, "discovery", "--configDir", dir, "--grpcAddr", addr, "--httpAddr=", "--httpsAddr=", "--secureGRPCAddr=", "--monitoringAddr=")
	c.Stderr = t.Output()
	c.Env = append(os.Environ(), env...)
	c.WaitDelay = time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	harness.Eventually(t, 30*time.Second, func(context.Context) error {
		conn, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	return c
}
