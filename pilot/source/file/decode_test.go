package file

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// TestDecode runs the archives in testdata/decode: input.yaml decodes to want.
func TestDecode(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/decode/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no archives: %v", err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			t.Parallel()
			golden(t, name, func(a *txtar.Archive) string {
				objects, problems := Decode("input.yaml", fileOf(a, "input.yaml"))
				return render(t, objects) + renderProblems(problems)
			})
		})
	}
}

func render(t *testing.T, objects []*model.Object) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "# %s %s\n", o.ObjectKey, o.Origin)
		fields := map[string]any{}
		if len(o.Labels) > 0 {
			fields["labels"] = o.Labels
		}
		if len(o.Annotations) > 0 {
			fields["annotations"] = o.Annotations
		}
		if !o.Created.IsZero() {
			fields["created"] = o.Created
		}
		if o.Generation != 0 {
			fields["generation"] = o.Generation
		}
		if o.ResourceVersion != "" {
			fields["resourceVersion"] = o.ResourceVersion
		}
		fields["spec"] = plain(t, o.Spec)
		if o.Status != nil {
			fields["status"] = plain(t, o.Status)
		}
		text, err := yaml.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

func plain(t *testing.T, v any) any {
	t.Helper()
	m, ok := v.(proto.Message)
	if !ok || fmt.Sprintf("%T", v)[:3] == "*v1" && !strings.Contains(fmt.Sprintf("%T", v), "v1alpha") && !strings.Contains(fmt.Sprintf("%T", v), "v1beta") {
		return v
	}
	text, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := yaml.Unmarshal(text, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func renderProblems(problems []source.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		fmt.Fprintf(&b, "! %s %s:%d %s field=%q: %s\n", p.Code, p.File, p.Line, p.Object, p.Field, p.Message)
	}
	return b.String()
}
