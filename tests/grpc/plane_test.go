package grpc

import (
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/tests/plane"
)

// startPlane starts a control plane on a directory, as the binary does, and returns where it serves ADS. stop, which may
// be called before the test ends, takes it down.
func startPlane(t *testing.T, dir, addr string) (s *server.Server, stop func()) {
	t.Helper()
	s = plane.Start(t, dir, func(o *server.Options) { o.GRPCAddr = addr })
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			s.Stop()
		}
	}
	t.Cleanup(func() {
		if t.Failed() && !stopped {
			t.Log("syncz: ", plane.Get(s, "/debug/syncz"))
		}
		stop()
	})
	return s, stop
}
