package file

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
	"github.com/mizzen-mesh/mizzen/pilot/source/document"
)

// FuzzDecode checks that no input makes Decode panic or take long, that problems point into the file, and that what
// decodes can be written out and decodes to the same again.
func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/decode/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(fileOf(a, "input.yaml"))
		for _, doc := range document.Split(fileOf(a, "input.yaml")) {
			f.Add(doc.Data)
		}
	}
	f.Add([]byte(bomb(9)))
	f.Fuzz(func(t *testing.T, data []byte) {
		began := time.Now()
		objects, problems := Decode("f", data)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("took %v for %d bytes", took, len(data))
		}
		for _, p := range problems {
			if p.Line < 1 || p.Line > bytes.Count(data, []byte("\n"))+1 || p.Code == "" || p.Message == "" {
				t.Errorf("problem without a place or a text: %+v", p)
			}
			if strings.Contains(p.Message, "cannot be decoded") {
				t.Errorf("panic: %+v", p)
			}
		}
		for _, o := range objects {
			again, problems := Decode("f", manifest(t, o))
			if len(problems) > 0 || len(again) != 1 {
				t.Fatalf("%s decodes again to %v\n%s", o.ObjectKey, problems, manifest(t, o))
			}
			if o.Created.Nanosecond() != 0 {
				o.Created = again[0].Created // JSON has whole seconds
			}
			if !convert.Equal(o, again[0]) {
				t.Fatalf("%s decodes to another object:\n%s\n%s", o.ObjectKey, manifest(t, o), manifest(t, again[0]))
			}
		}
	})
}

// manifest writes an object out as a document.
func manifest(t *testing.T, o *model.Object) []byte {
	t.Helper()
	r := convert.NewCatalog().Kind(o.Kind)
	doc := map[string]any{}
	if !r.Istio() {
		text, err := json.Marshal(o.Spec)
		must(t, err)
		must(t, json.Unmarshal(text, &doc))
	} else {
		doc["spec"] = part(t, o.Spec)
		if o.Status != nil {
			doc["status"] = part(t, o.Status)
		}
	}
	doc["apiVersion"], doc["kind"] = strings.TrimPrefix(r.Group+"/"+r.Versions[0], "/"), r.Name
	md, _ := doc["metadata"].(map[string]any)
	if md == nil {
		md = map[string]any{}
		doc["metadata"] = md
	}
	md["name"], md["namespace"], md["labels"], md["annotations"] = o.Name, o.Namespace, o.Labels, o.Annotations
	md["resourceVersion"], md["generation"] = o.ResourceVersion, o.Generation
	if !o.Created.IsZero() {
		md["creationTimestamp"] = metav1.NewTime(o.Created)
	}
	text, err := json.Marshal(doc)
	must(t, err)
	return text
}

func part(t *testing.T, m any) json.RawMessage {
	t.Helper()
	text, err := protojson.Marshal(m.(proto.Message))
	must(t, err)
	return text
}

// bomb is a document whose aliases double with each level.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n")
	for i := range levels {
		from, to := string(rune('0'+i)), string(rune('1'+i))
		b.WriteString("a" + to + ": &a" + to + " [" + strings.Repeat("*a"+from+", ", 9) + "*a" + from + "]\n")
	}
	return b.String()
}

func TestBombs(t *testing.T) {
	t.Parallel()
	head := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	long := head + "x: &x " + strings.Repeat("y", 1_000_000) + "\ndata: {" + strings.Repeat("a: *x, ", 1000) + "}\n"
	for name, text := range map[string]string{
		"aliases": bomb(9), "aliases of long text": long, "flow": head + "data: " + strings.Repeat("[", 9000),
		"closed flow": head + "data: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"block":       head + "data:\n" + strings.Repeat("- ", 5000) + "a", "size": head + "# " + strings.Repeat("x", DefaultDocumentLimit),
		"self": head + "data: &a [*a]",
	} {
		began := time.Now()
		objects, problems := Decode("f", []byte(text+"\n---\n"+head))
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%s takes %v", name, took)
		}
		if len(objects) != 1 || len(problems) != 1 {
			t.Errorf("%s: %d objects, problems %v", name, len(objects), problems)
		}
	}
}
