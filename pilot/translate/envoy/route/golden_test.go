package route

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"
)

// TestGolden translates testdata/*.yaml. The first line of each says who asks for what: "# ask: NAMESPACE[/stock] NAME; …".
// UPDATE_GOLDEN=1 rewrites the results.
func TestGolden(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/*.in.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	for _, path := range inputs {
		name := strings.TrimSuffix(filepath.Base(path), ".in.yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := testdata(t, name+".in.yaml")
			first, _, _ := strings.Cut(text, "\n")
			asks, ok := strings.CutPrefix(first, "# ask: ")
			if !ok {
				t.Fatal("the first line says nobody asks")
			}
			w := newWorld(t, nil, text)
			got := map[string]any{}
			for ask := range strings.SplitSeq(asks, ";") {
				who, what, _ := strings.Cut(strings.TrimSpace(ask), " ")
				got[who+" "+what] = w.document(asker(who), what)
			}
			compareGolden(t, name+".out.yaml", got)
		})
	}
}

// asker understands "namespace", "namespace/stock" and "namespace/grpc".
func asker(who string) client {
	namespace, kind, _ := strings.Cut(who, "/")
	p := client{namespace: namespace, labels: map[string]string{"app": "web"}, stock: kind == "stock"}
	if kind == "grpc" {
		p.metadata = map[string]any{"GENERATOR": "grpc"}
	}
	return p
}

func (w *world) document(p client, name string) any {
	w.t.Helper()
	text, err := protojson.Marshal(w.rds(p, name))
	if err != nil {
		w.t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

func compareGolden(t *testing.T, name string, got any) {
	t.Helper()
	text, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want := testdata(t, name); want != string(text) {
		t.Errorf("%s differs; UPDATE_GOLDEN=1 shows how:\n%s", path, firstDifference(want, string(text)))
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return "want " + w[i] + "\ngot  " + g[i]
		}
	}
	return "one is longer than the other"
}
