package cluster_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

func sorted(lines []string) []string {
	slices.Sort(lines)
	return lines
}

func archives(t testing.TB) map[string]*txtar.Archive {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	out := make(map[string]*txtar.Archive, len(files))
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = a
	}
	return out
}

// TestGolden compares the clusters that proxies of an archive ("<name>.node.yaml") get with its file "want". With a file
// "only", clusters that contain none of its words are left out. UPDATE_GOLDEN=1 rewrites "want".
func TestGolden(t *testing.T) {
	t.Parallel()
	for name, a := range archives(t) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			got := run(t, a)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				write(t, name, a, got)
				return
			}
			if want := string(fixture.File(a, "want")); got != want {
				t.Errorf("%s: clusters differ (UPDATE_GOLDEN=1 rewrites it): %s", name, firstDifference(want, got))
			}
		})
	}
}

func run(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	w := newWorld(t, a)
	only := strings.Fields(string(fixture.File(a, "only")))
	var out strings.Builder
	for _, f := range a.Files {
		who, isNode := strings.CutSuffix(f.Name, ".node.yaml")
		if !isNode {
			continue
		}
		for _, m := range w.clusters(t, fixture.Proxy(t, f.Data)) {
			if len(only) == 0 || slices.ContainsFunc(only, func(s string) bool { return strings.Contains(m.Name, s) }) {
				if m.Err != nil {
					out.WriteString(who + ": " + m.Name + "\n  error: " + m.Err.Error() + "\n")
					continue
				}
				out.WriteString(who + ": " + m.Name + "\n" + text(t, m.Proto))
			}
		}
	}
	return out.String()
}

func write(t *testing.T, name string, a *txtar.Archive, got string) {
	t.Helper()
	a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
	a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
	if err := os.WriteFile(name, txtar.Format(a), 0o600); err != nil {
		t.Fatal(err)
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return "\nwant " + w[i] + "\ngot  " + g[i]
		}
	}
	return "one is longer"
}

// TestSameBytes makes every cluster twice: the bytes must be equal, and what clusters share must not have changed.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	for name, a := range archives(t) {
		w := newWorld(t, a)
		for _, f := range a.Files {
			if !strings.HasSuffix(f.Name, ".node.yaml") {
				continue
			}
			p := fixture.Proxy(t, f.Data)
			first := encodeAll(t, w.clusters(t, p))
			for i, b := range encodeAll(t, w.clusters(t, p)) {
				if !bytes.Equal(first[i], b) {
					t.Errorf("%s: cluster %d has other bytes the second time", name, i)
				}
			}
		}
	}
}

func encodeAll(t *testing.T, messages []*translate.Message) [][]byte {
	t.Helper()
	out := make([][]byte, len(messages))
	for i, m := range messages {
		rope, err := translate.Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = rope.Flat()
	}
	return out
}

// TestReadsLittleOfTheProxy says which properties the clusters of usual services may depend on: any other one would make
// proxies compute, and hold, clusters of their own.
func TestReadsLittleOfTheProxy(t *testing.T) {
	t.Parallel()
	a := archives(t)[filepath.Join("testdata", "usual.txtar")]
	if a == nil {
		t.Fatal("no archive usual.txtar")
	}
	w := newWorld(t, a)
	p := fixture.Proxy(t, fixture.File(a, "web.node.yaml"))
	allowed := []cell.Prop{view.PropType, view.PropProfile, view.PropSettings, view.PropHeaderCase, view.PropCertificate}
	units := w.slots[0].Units(w.context(p, nil))
	if len(units) < 3 {
		t.Fatalf("only %d units", len(units))
	}
	for _, u := range units {
		rec := &cell.Recorder{}
		if _, err := w.slots[0].Build(w.context(p, rec), u); err != nil {
			t.Fatal(err)
		}
		for prop := range cell.Prop(64) {
			if rec.Mask().Has(prop) && !slices.Contains(allowed, prop) {
				t.Errorf("%+v depends on property %d", u, prop)
			}
		}
	}
}

// BenchmarkCheck is what checking the clusters of BenchmarkService costs, the messages in Any left aside.
func BenchmarkCheck(b *testing.B) {
	a := archives(b)[filepath.Join("testdata", "usual.txtar")]
	w := newWorld(b, a)
	p := fixture.Proxy(b, fixture.File(a, "web.node.yaml"))
	v := w.context(p, nil)
	messages, err := w.slots[0].Build(v, w.slots[0].Units(v)[0])
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, m := range messages {
			if err := translate.Check(m.Proto); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkService(b *testing.B) {
	a := archives(b)[filepath.Join("testdata", "usual.txtar")]
	w := newWorld(b, a)
	p := fixture.Proxy(b, fixture.File(a, "web.node.yaml"))
	slot := w.slots[0]
	unit := slot.Units(w.context(p, nil))[0]
	v := w.context(p, nil)
	n := 0
	for b.Loop() {
		messages, err := slot.Build(v, unit)
		if err != nil {
			b.Fatal(err)
		}
		n = len(messages)
	}
	b.ReportMetric(float64(n), "clusters")
}
