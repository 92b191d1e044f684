package fault

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// fileCase is something bad that happens to a file. Before, the file holds a good ServiceEntry called as the case, which
// must stay in force as it is.
type fileCase struct {
	name string
	// text replaces what the file holds; do, if set, is done instead.
	text string
	do   func(t *testing.T, p *plane, path string)
	want []report
	// new says that there is no file before.
	new bool
	// root says that the superuser cannot be harmed in this way.
	root bool
}

// report is a problem that must be reported. Message is a part of the problem's.
type report struct {
	code    string
	file    string // empty: the case's
	line    int
	field   string
	object  string // Kind/namespace/name
	message string
}

const (
	nobody = "//"
	header = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\n"
)

// syntaxCases are files that are no YAML, or more of it than anybody may send.
func syntaxCases() []fileCase {
	deep := strings.Repeat("{a: ", 300) + "1" + strings.Repeat("}", 300) + "\n"
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'i'; c++ {
		bomb += fmt.Sprintf("%[1]c: &%[1]c [%[2]s]\n", c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	return []fileCase{
		{name: "tab", text: header + "metadata:\n\tname: tab\n", want: []report{{code: "yaml", line: 4, object: nobody, message: "cannot start any token"}}},
		{name: "unclosed", text: header + "metadata: {name: unclosed\n", want: []report{{code: "yaml", line: 3, object: nobody, message: "did not find expected"}}},
		{
			name: "beside", text: "a: [\n---\n" + entry("beside", "") + "---\n}\n",
			want: []report{{code: "yaml", line: 1, object: nobody}, {code: "yaml", line: 13, object: nobody}},
		},
		{name: "scalar", text: "just text\n", want: []report{{code: "yaml", line: 1, object: nobody, message: "not an object"}}},
		{name: "binary", text: "\x7fELF\x02\x01\x01\x00\x00\xfe\xff\x00\x80", want: []report{{code: "yaml", line: 1, object: nobody}}},
		{name: "nul", text: header + "metadata: {name: \"nul\x00\"}\n", want: []report{{code: "yaml", line: 1, object: nobody, message: "control characters"}}},
		{name: "latin1", text: entry("latin1", ", annotations: {note: caf\xe9}"), want: []report{{code: "yaml", line: 1, object: nobody, message: "UTF-8"}}},
		{name: "deep", text: deep, want: []report{{code: "size", line: 1, object: nobody, message: "nested deeper than 200"}}},
		{name: "abyss", text: strings.Repeat("[", 200_000), want: []report{{code: "yaml", line: 1, object: nobody, message: "depth"}}},
		{name: "bomb", text: bomb, want: []report{{code: "size", line: 1, object: nobody, message: "aliases make the document larger"}}},
		{name: "snake", text: "a: &a [*a]\n", want: []report{{code: "size", line: 1, object: nobody}}},
		{name: "megabyte", text: entry("megabyte", ", annotations: {note: "+strings.Repeat("x", 1<<20)+"}")},
		{
			name: "too-large", text: entry("too-large", ", annotations: {note: "+strings.Repeat("x", file.DefaultDocumentLimit)+"}"),
			want: []report{{code: "size", line: 1, object: nobody, message: "more than 1500000"}},
		},
		{name: "empty", new: true},
		{name: "comment", text: "# nothing\n---\n", new: true},
	}
}

// objectCases are YAML that is no object anybody could use.
func objectCases() []fileCase {
	key := func(name string) string { return "ServiceEntry/demo/" + name }
	change := func(name, old, new string) string { return strings.Replace(entry(name, ""), old, new, 1) }
	return []fileCase{
		{
			name: "kind", text: change("kind", "kind: ServiceEntry", "kind: ServiceEntrie"),
			want: []report{{code: "kind", line: 2, field: "kind", object: "ServiceEntrie/demo/kind", message: "has no kind ServiceEntrie"}},
		},
		{
			name: "version", text: change("version", "istio.io/v1", "istio.io/v9"),
			want: []report{{code: "kind", line: 1, field: "apiVersion", object: key("version"), message: "not served in networking.istio.io/v9"}},
		},
		{name: "stranger", text: "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: stranger}\nspec: {nonsense: 1}\n", new: true},
		{name: "kindless", text: "metadata: {name: kindless}\n", want: []report{{code: "kind", line: 1, field: "kind", object: "//kindless", message: "apiVersion and kind are needed"}}},
		{
			name: "field", text: change("field", "  resolution", "  resolutoin"),
			want: []report{{code: "field", line: 7, field: "spec.resolutoin", object: key("field")}},
		},
		{
			name: "type", text: change("type", "number: 80", "number: eighty"),
			want: []report{{code: "field", line: 6, field: "spec.ports[0].number", object: key("type")}},
		},
		{
			name: "service", text: "apiVersion: v1\nkind: Service\nmetadata: {name: service, namespace: demo}\nspec:\n  ports: 80\n", new: true,
			want: []report{{code: "field", line: 5, field: "spec.ports", object: "Service/demo/service"}},
		},
		{
			name: "value", text: change("value", "number: 80", "number: 99999"),
			want: []report{{code: "invalid", line: 6, field: "spec.ports[0].number", object: key("value")}},
		},
		{
			name: "weights", new: true, text: strings.Join([]string{
				"apiVersion: networking.istio.io/v1", "kind: VirtualService", "metadata: {name: weights, namespace: demo}", "spec:", "  hosts: [s2]",
				"  http:", "  - route:", "    - destination: {host: s2}", "      weight: -1", "    - destination: {host: s0}", "      weight: 101", "",
			}, "\n"),
			want: []report{{code: "invalid", line: 9, field: "spec.http[0].route[0].weight", object: "VirtualService/demo/weights"}},
		},
		{
			name: "twice", text: entry("twice", "") + "---\n" + change("twice", "10.3.0.1", "10.3.0.2"),
			want: []report{{code: "duplicate", line: 11, object: key("twice"), message: "already defined at twice.yaml:1"}},
		},
		{
			name: "again", do: func(t *testing.T, p *plane, _ string) {
				p.write(t, "again/b.yaml", change("again", "10.3.0.1", "10.3.0.2"))
			},
			want: []report{{code: "duplicate", file: "again/b.yaml", line: 1, object: key("again"), message: "already defined at again.yaml:1"}},
		},
		{name: "nameless", text: change("nameless", "name: nameless, ", ""), want: []report{{code: "field", line: 3, field: "metadata.name", object: key("")}}},
		{
			name: "nul-name", text: change("nul-name", "name: nul-name", `name: "nul\0name"`), new: true,
			want: []report{{code: "invalid", line: 3, field: "metadata.name", object: key("nul\x00name")}},
		},
		{
			name: "member", text: "apiVersion: v1\nkind: List\nitems:\n- 1\n- {apiVersion: v1, kind: Pod, metadata: 1}\n- " + strings.ReplaceAll(strings.TrimSpace(entry("member", "")), "\n", "\n  ") + "\n",
			want: []report{{code: "field", line: 4, field: "items[0]", object: nobody}, {code: "field", line: 5, field: "items[1].metadata", object: "Pod/default/"}},
		},
	}
}

// directoryCases are names that hold no file.
func directoryCases() []fileCase {
	loop := func(t *testing.T, _ *plane, path string) {
		if err := os.Symlink(filepath.Base(path), path+".tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".tmp", path); err != nil {
			t.Fatal(err)
		}
	}
	directory := func(t *testing.T, p *plane, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		p.write(t, filepath.Base(path)+"/inside.yaml", entry("directory", ""))
	}
	closed := func(t *testing.T, p *plane, path string) {
		dir := filepath.Join(p.dir, "closed")
		if err := os.Mkdir(dir, 0o000); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(dir, 0o700) }) //nolint:gosec // so that it can be removed
	}
	return []fileCase{
		{name: "loop", do: loop, want: []report{{code: "read", object: nobody, message: "too many levels of symbolic links"}}},
		{name: "directory", do: directory},
		{name: "closed", do: closed, root: true, want: []report{{code: "read", file: "closed", object: nobody, message: "permission denied"}}},
	}
}

// TestBadFiles does bad things to the files of a directory, one after the other and each on top of the others.
func TestBadFiles(t *testing.T) {
	t.Parallel()
	cases := slices.Concat(syntaxCases(), objectCases(), directoryCases())
	good := map[string]string{}
	for _, c := range cases {
		if !c.new {
			good[c.name+".yaml"] = entry(c.name, "")
		}
	}
	p := startPlane(t, good)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() == 0 {
				t.Skip("the superuser reads every directory")
			}
			if c.do != nil {
				c.do(t, p, filepath.Join(p.dir, c.name+".yaml"))
			} else {
				p.write(t, c.name+".yaml", c.text)
			}
			harness.Eventually(t, patience, func(context.Context) error { return p.reported(t, c) })
			p.unharmed(t)
			if err := p.reported(t, c); err != nil {
				t.Error(err)
			}
		})
	}
	if err := p.counted(t, p.problems(t)); err != nil {
		t.Error(err)
	}
	p.mend(t)
}

// reported says by an error in what the reported problems differ from those that a case must have.
func (p *plane) reported(t *testing.T, c fileCase) error {
	t.Helper()
	all := p.problems(t)
	var got []source.Problem
	for _, x := range all["file"] {
		if x.File == c.name || x.File == c.name+".yaml" || strings.HasPrefix(x.File, c.name+"/") || strings.HasPrefix(x.File, c.name+".yaml/") {
			got = append(got, x)
		}
	}
	same := slices.EqualFunc(got, c.want, func(x source.Problem, w report) bool {
		if w.file == "" {
			w.file = c.name + ".yaml"
		}
		return x.Code == w.code && x.File == w.file && x.Line == w.line && x.Field == w.field && x.Object.String() == w.object &&
			strings.Contains(x.Message, w.message) && x.Message != ""
	})
	if !same {
		return fmt.Errorf("reported %+v, want %+v", got, c.want)
	}
	return p.counted(t, all)
}

// mend puts a good file in the place of everything, and expects that nothing is wrong any more.
func (p *plane) mend(t *testing.T) {
	t.Helper()
	list, err := os.ReadDir(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if e.Name() == "good" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(p.dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range slices.Concat(syntaxCases(), objectCases(), directoryCases()) {
		if !c.new {
			p.write(t, "mended/"+c.name+".yaml", entry(c.name, ""))
		}
	}
	harness.Eventually(t, patience, func(context.Context) error {
		all := p.problems(t)
		if len(all["file"]) > 0 {
			return fmt.Errorf("still reported: %+v", all["file"])
		}
		return p.counted(t, all)
	})
	p.unharmed(t)
}

// TestBadMesh breaks the mesh configuration and mends it.
func TestBadMesh(t *testing.T) {
	t.Parallel()
	p := startPlane(t, nil)
	for _, c := range []struct {
		name, text string
		want       report
	}{
		{"too large", strings.Repeat("# filling\n", 17<<20/10), report{code: "read", object: nobody, message: "more than 16777216 bytes"}},
		{"yaml", "connectTimeout: [\n", report{code: "yaml", line: 1, object: "MeshConfig//"}},
		{"scalar", "text\n", report{code: "yaml", line: 1, object: "MeshConfig//"}},
		{"field", "connectTimeout: 9s\nconnectTimeuot: 1s\n", report{code: "field", line: 2, field: "connectTimeuot", object: "MeshConfig//"}},
		{"type", "connectTimeout: soon\n", report{code: "field", line: 1, field: "connectTimeout", object: "MeshConfig//"}},
		{"value", "connectTimeout: -1s\n", report{code: "invalid", line: 1, field: "connectTimeout", object: "MeshConfig//"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			put(t, p.mesh, c.text)
			harness.Eventually(t, patience, func(context.Context) error {
				all := p.problems(t)
				x := all["meshconfig"]
				if len(x) != 1 || x[0].Code != c.want.code || x[0].File != p.mesh || x[0].Line != c.want.line || x[0].Field != c.want.field ||
					x[0].Object.String() != c.want.object || !strings.Contains(x[0].Message, c.want.message) {
					return fmt.Errorf("reported %+v, want %+v", x, c.want)
				}
				return p.counted(t, all)
			})
			p.unharmed(t)
		})
	}
	put(t, p.mesh, "connectTimeout: 3s\n")
	for _, n := range p.neighbours {
		harness.Eventually(t, patience, func(context.Context) error {
			if n.holds(p.variant) == nil {
				return fmt.Errorf("the mended mesh configuration has not come")
			}
			return nil
		})
	}
	put(t, p.mesh, goodMesh)
	p.unharmed(t)
	if all := p.problems(t); len(all["meshconfig"]) > 0 {
		t.Errorf("still reported: %+v", all)
	}
}
