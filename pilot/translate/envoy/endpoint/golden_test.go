package endpoint_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/endpoint"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// world is a PushContext of an archive's files: input.yaml, mesh.yaml.
func world(t testing.TB, a *txtar.Archive) *model.PushContext {
	t.Helper()
	mesh, err := meshconfig.Parse(fixture.File(a, "mesh.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	events := fixture.Events(t, fixture.File(a, "input.yaml"))
	pc, _ := model.NewBuilder(model.DefaultSettings(), mesh).Apply(events, nil)
	return pc
}

func assignment(t testing.TB, pc *model.PushContext, p *view.Proxy, rec *cell.Recorder, name string) *endpointv3.ClusterLoadAssignment {
	t.Helper()
	v := view.Of(model.NewReader(pc, nil), p)
	messages, err := endpoint.Slot().Build(view.NewContext(pc, rec, nil, v), name)
	if err != nil {
		t.Fatal(err)
	}
	out, ok := messages[0].Proto.(*endpointv3.ClusterLoadAssignment)
	if !ok || len(messages) != 1 || messages[0].Name != name {
		t.Fatalf("%s: %d messages, the first %T named %s", name, len(messages), messages[0].Proto, messages[0].Name)
	}
	if err := out.ValidateAll(); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return out
}

// TestGolden compares the assignments that proxies of an archive ("<name>.node.yaml") get for the clusters in its file
// "clusters" with its file "want". UPDATE_GOLDEN=1 rewrites that.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got := run(t, a)
			if os.Getenv("UPDATE_GOLDEN") != "" {
				write(t, name, a, got)
				return
			}
			if want := string(fixture.File(a, "want")); got != want {
				t.Errorf("%s differs (UPDATE_GOLDEN=1 rewrites it); got:\n%s", name, got)
			}
		})
	}
}

func run(t *testing.T, a *txtar.Archive) string {
	t.Helper()
	pc := world(t, a)
	var out strings.Builder
	for _, f := range a.Files {
		who, isNode := strings.CutSuffix(f.Name, ".node.yaml")
		if !isNode {
			continue
		}
		p := fixture.Proxy(t, f.Data)
		for _, name := range strings.Fields(string(fixture.File(a, "clusters"))) {
			out.WriteString("# " + who + "\n" + text(t, assignment(t, pc, p, nil, name)))
		}
	}
	return out.String()
}

func text(t *testing.T, m *endpointv3.ClusterLoadAssignment) string {
	t.Helper()
	js, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := json.Compact(&b, js); err != nil {
		t.Fatal(err)
	}
	y, err := yaml.JSONToYAML(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return string(y)
}

func write(t *testing.T, name string, a *txtar.Archive, want string) {
	t.Helper()
	for i := range a.Files {
		if a.Files[i].Name == "want" {
			a.Files = append(a.Files[:i], a.Files[i+1:]...)
			break
		}
	}
	a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(want)})
	if err := os.WriteFile(name, txtar.Format(a), 0o600); err != nil {
		t.Fatal(err)
	}
}
