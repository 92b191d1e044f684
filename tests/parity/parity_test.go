package parity

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
)

func root(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("MIZZEN_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	dir = filepath.Join(dir, "parity")
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no recordings: MIZZEN_SHARED names no folder with parity/")
	}
	return dir
}

// floor is the least score of the core scenarios in percent. It only goes up.
const floor = 80.0

// TestParityCore scores the scenarios of the first milestone. PARITY_LINES is the number of differing paths shown for a
// resource (default 4).
func TestParityCore(t *testing.T) {
	t.Parallel()
	total := runAll(t, root(t), "core.txt", func(string) bool { return true })
	t.Logf("core scenarios: %s", total)
	if total.percent() < floor {
		t.Errorf("core scenarios: %s, want at least %.0f %%", total, floor)
	}
}

// TestParityAll scores every scenario for sidecar and proxyless gRPC proxies, and prints the others' score apart.
func TestParityAll(t *testing.T) {
	t.Parallel()
	dir := root(t)
	sidecars := runAll(t, dir, "", func(kind string) bool { return kind == "sidecar" || kind == "grpc" })
	t.Logf("all scenarios, sidecars and grpc: %s", sidecars)
}

// chosen lists the scenarios whose names contain PARITY_ONLY: all, or those of a list file.
func chosen(t *testing.T, dir, list string) []string {
	t.Helper()
	names, err := scenarios(dir, list)
	if err != nil {
		t.Fatal(err)
	}
	only := os.Getenv("PARITY_ONLY")
	return slices.DeleteFunc(names, func(n string) bool { return !strings.Contains(n, only) })
}

func runAll(t *testing.T, dir, list string, kinds func(string) bool) score {
	t.Helper()
	names := chosen(t, dir, list)
	var mu sync.Mutex
	var total score
	byType := map[string]*score{}
	t.Run("scenarios", func(t *testing.T) {
		for _, n := range names {
			t.Run(n, func(t *testing.T) {
				t.Parallel()
				scores, err := runScenario(t, filepath.Join(dir, n), kinds)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				for ty, s := range scores {
					total.add(s)
					if byType[ty] == nil {
						byType[ty] = &score{}
					}
					byType[ty].add(s)
				}
			})
		}
	})
	for _, ty := range []string{"cds", "eds", "lds", "rds", "nds", "ecds"} {
		if s := byType[ty]; s != nil {
			t.Logf("  %s %s", ty, s)
		}
	}
	return total
}

func runScenario(t *testing.T, dir string, kinds func(string) bool) (map[string]score, error) {
	t.Helper()
	s, err := loadScenario(dir)
	if err != nil {
		return nil, err
	}
	p, err := offline.Start(s.settings, s.mesh, s.objects)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	lines := 4
	if v := os.Getenv("PARITY_LINES"); v != "" {
		if _, err := fmt.Sscan(v, &lines); err != nil {
			return nil, err
		}
	}
	out := map[string]score{}
	for i := range s.proxies {
		spec := &s.proxies[i]
		if !kinds(spec.kind()) {
			continue
		}
		want, err := readRecording(filepath.Join(dir, "golden", spec.Name+".json"))
		if err != nil {
			return nil, err
		}
		got, err := ask(p, spec)
		if err != nil {
			return nil, fmt.Errorf("proxy %s: %w", spec.Name, err)
		}
		for ty := range want {
			if why := skipped(ty); why != "" {
				t.Logf("%s %s not compared: %s", spec.Name, ty, why)
				continue
			}
			sc := compareType(want[ty], got[ty], lines, func(l string) { t.Logf("%s %s %s", spec.Name, ty, l) })
			t.Logf("%s %s %s", spec.Name, ty, sc)
			prev := out[ty]
			prev.add(sc)
			out[ty] = prev
		}
	}
	return out, nil
}
