package fault

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	planes "github.com/mizzen-mesh/mizzen/tests/plane"
)

// patience bounds each wait. A machine under load needs much of it, and a test that passes none.
const patience = 20 * time.Second

// plane is a control plane on a directory, with neighbours whom no bad input may touch.
type plane struct {
	*server.Server
	dir        string
	mesh       string // the file of the mesh configuration
	variant    int    // of the good objects, that is in the directory
	neighbours []*neighbour
}

// startPlane starts a control plane as the binary does, on a directory that holds the good objects and files, and its
// neighbours, in both protocols.
func startPlane(t *testing.T, files map[string]string) *plane {
	t.Helper()
	p := &plane{dir: t.TempDir(), mesh: filepath.Join(t.TempDir(), "mesh")}
	for name, text := range files {
		p.write(t, name, text)
	}
	p.write(t, "good/base.yaml", baseObjects())
	p.edit(t, 0)
	put(t, p.mesh, goodMesh)
	w := meshconfig.Watcher{Inputs: []meshconfig.Input{meshconfig.Files{Config: p.mesh}}}
	p.Server = planes.Start(t, p.dir, func(o *server.Options) {
		o.Log, o.MeshSource = planes.Log(t, slog.LevelError), w.Run
		o.Settings.DebounceAfter, o.Settings.DebounceMax = 10*time.Millisecond, time.Second
	})
	t.Cleanup(p.Stop)
	for _, delta := range []bool{true, false} {
		p.neighbours = append(p.neighbours, startNeighbour(t, p.GRPC.String(), delta))
	}
	for v := range variants {
		p.edit(t, 1-v)
		for _, n := range p.neighbours {
			harness.Eventually(t, patience, func(context.Context) error { return n.learn(1 - v) })
		}
	}
	return p
}

// unharmed fails the test unless everything but the culprit is as it should be: the neighbours hold exactly what they
// held before, an edit of good objects reaches them, and no stream has panicked.
func (p *plane) unharmed(t *testing.T) {
	t.Helper()
	for _, n := range p.neighbours {
		harness.Eventually(t, patience, func(context.Context) error { return n.holds(p.variant) })
	}
	p.edit(t, 1-p.variant)
	for _, n := range p.neighbours {
		harness.Eventually(t, patience, func(context.Context) error { return n.holds(p.variant) })
	}
	if code, _ := p.get(t, "/ready"); code != http.StatusOK {
		t.Fatalf("the control plane is not ready any more: %d", code)
	}
	if n := p.metric(t, "mizzen_xds_stream_panics_total"); n != 0 {
		t.Fatalf("%v streams have panicked", n)
	}
	select {
	case err := <-p.Failed():
		t.Fatalf("the control plane has failed: %v", err)
	default:
	}
}

// edit puts a variant of the good objects into the directory.
func (p *plane) edit(t *testing.T, variant int) {
	t.Helper()
	p.variant = variant
	p.write(t, "good/edited.yaml", editedObjects(variant))
}

// write replaces a file of the directory in one step.
func (p *plane) write(t *testing.T, name, text string) {
	t.Helper()
	put(t, filepath.Join(p.dir, filepath.FromSlash(name)), text)
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(beside, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(beside, path); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) get(t *testing.T, path string) (code int, body []byte) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.HTTP.String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if body, err = io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, body
}

// problems returns what the debug port says to be wrong, by source.
func (p *plane) problems(t *testing.T) map[string][]source.Problem {
	t.Helper()
	_, body := p.get(t, "/debug/problemz")
	var out map[string][]source.Problem
	if err := json.Unmarshal(body, &out); err != nil {
		t.Fatalf("problemz: %v in %s", err, body)
	}
	return out
}

// counted says by an error in what the metric of problems differs from the list of problems.
func (p *plane) counted(t *testing.T, list map[string][]source.Problem) error {
	t.Helper()
	want := map[string]float64{}
	for name, problems := range list {
		for _, x := range problems {
			want[fmt.Sprintf("mizzen_source_problems{code=%q,source=%q}", x.Code, name)]++
		}
	}
	got := p.metrics(t)
	maps.DeleteFunc(got, func(n string, _ float64) bool { return !strings.HasPrefix(n, "mizzen_source_problems{") })
	if !maps.Equal(got, want) {
		return fmt.Errorf("metrics %v, problems %v", got, want)
	}
	return nil
}

// metrics returns the series of the metrics port.
func (p *plane) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	_, body := p.get(t, "/metrics")
	out := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(body)); lines.Scan(); {
		line := lines.Text()
		i := strings.LastIndexByte(line, ' ')
		if i < 0 || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil {
			t.Fatalf("metric %q: %v", line, err)
		}
		out[line[:i]] = v
	}
	return out
}

func (p *plane) metric(t *testing.T, name string) float64 {
	t.Helper()
	return p.metrics(t)[name]
}

// streams returns the ids of the connected proxies, sorted.
func (p *plane) streams(t *testing.T) []string {
	t.Helper()
	_, body := p.get(t, "/debug/syncz")
	var rows []struct{ Proxy string }
	if err := json.Unmarshal(body, &rows); err != nil {
		t.Fatalf("syncz: %v in %s", err, body)
	}
	var out []string
	for _, r := range rows {
		out = append(out, r.Proxy)
	}
	slices.Sort(out)
	return out
}
