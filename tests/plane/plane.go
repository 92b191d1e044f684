// Package plane starts control planes in a test's own process.
package plane

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
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
)

// requestsPerSecond is more than any test asks for.
const requestsPerSecond = 10_000

// Start starts a control plane on a directory, as the binary does, on ports of the kernel's choice. change, if not nil,
// has the last word about its options. Whoever calls it stops the server.
func Start(t testing.TB, dir string, change func(*server.Options)) *server.Server {
	t.Helper()
	settings := model.DefaultSettings()
	settings.RequestsPerSecond = requestsPerSecond
	src, err := server.Directory(dir, settings, false)
	if err != nil {
		t.Fatal(err)
	}
	mesh, err := meshconfig.Parse()
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{
		Log: Log(t, slog.LevelWarn), Settings: settings, Mesh: mesh, Sources: []source.Source{src},
		GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", ShutdownDuration: time.Second,
	}
	if change != nil {
		change(&o)
	}
	s, err := server.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Log returns a log that is part of the test's output.
func Log(t testing.TB, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: level}))
}

// Get returns what a control plane answers at a path of its debug port, or why it does not.
func Get(s *server.Server, path string) string {
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
