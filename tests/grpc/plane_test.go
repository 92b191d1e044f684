package grpc

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/validate"
)

// startPlane starts a control plane on a directory, as the binary does, and returns where it serves ADS. stop, which may
// be called before the test ends, takes it down.
func startPlane(t *testing.T, dir, addr string) (s *server.Server, stop func()) {
	t.Helper()
	src, err := file.New(file.Options{Dir: dir, Check: validate.Object})
	if err != nil {
		t.Fatal(err)
	}
	mesh, err := meshconfig.Parse()
	if err != nil {
		t.Fatal(err)
	}
	settings := model.DefaultSettings()
	settings.RequestsPerSecond = 10_000
	s, err = server.Start(context.Background(), server.Options{
		Log:      slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Settings: settings, Mesh: mesh, Sources: []source.Source{src}, GRPCAddr: addr, HTTPAddr: "127.0.0.1:0",
		ShutdownDuration: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			s.Stop()
		}
	}
	t.Cleanup(func() {
		if t.Failed() && !stopped {
			t.Log("syncz: ", get(s, "/debug/syncz"))
		}
		stop()
	})
	return s, stop
}

// get returns what the control plane answers at a path of its debug port.
func get(s *server.Server, path string) string {
	r, err := http.Get("http://" + s.HTTP.String() + path) //nolint:noctx // a debug helper of tests
	if err != nil {
		return err.Error()
	}
	defer func() { _ = r.Body.Close() }()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
