package file

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/validate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a sink that keeps the objects in force and the history.
type recorder struct {
	mu       sync.Mutex // guards the rest
	objects  map[model.ObjectKey]*model.Object
	history  []model.Event
	problems []source.Problem
	synced   int
	changed  chan struct{}
}

func newRecorder() *recorder {
	return &recorder{objects: map[model.ObjectKey]*model.Object{}, changed: make(chan struct{}, 1)}
}

func (r *recorder) note() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *recorder) Events(_ string, events []model.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		r.history = append(r.history, e)
		if e.Object == nil {
			delete(r.objects, e.Key)
		} else {
			r.objects[e.Key] = e.Object
		}
	}
	r.note()
}

func (r *recorder) Synced(string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced++
	r.note()
}

func (r *recorder) Problems(_ string, problems []source.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = problems
	r.note()
}

// summary lists the hosts of the services entries in force by name, and the problems' codes with their places.
func (r *recorder) summary() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for k, o := range r.objects {
		out = append(out, k.Name+"="+strings.Join(o.Spec.(*networking.ServiceEntry).Hosts, ","))
	}
	sortStrings(out)
	for _, p := range r.problems {
		out = append(out, fmt.Sprintf("!%s %s:%d", p.Code, p.File, p.Line))
	}
	return strings.Join(out, " ")
}

// events counts what has been delivered so far.
func (r *recorder) events() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.history)
}

// world is a source running on a temporary directory.
type world struct {
	*testing.T
	dir  string
	sink *recorder
}

// start runs a source on dir until the test ends.
func start(t *testing.T, dir string, want string) *world {
	t.Helper()
	s, err := New(Options{Dir: dir, Check: func(o *model.Object) []validate.Issue {
		if o.Name == "refused" {
			return []validate.Issue{{Field: "spec.hosts", Message: "refused"}, {Field: "spec", Message: "w", Warning: true}}
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, dir: dir, sink: newRecorder()}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, w.sink) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	w.wait(want)
	return w
}

// wait waits until the summary is as wanted.
func (w *world) wait(want string) {
	w.Helper()
	deadline := time.After(20 * time.Second)
	for w.sink.summary() != want {
		select {
		case <-w.sink.changed:
		case <-deadline:
			w.Fatalf("got  %q\nwant %q\nproblems: %v", w.sink.summary(), want, w.sink.problems)
		}
	}
}

func (w *world) write(name, text string) {
	w.Helper()
	writeFile(w.T, filepath.Join(w.dir, name), text)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// se is a service entry as one document.
func se(name, host string) string {
	return "---\napiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: " + name + ", namespace: ns}\n" +
		"spec: {hosts: [" + host + "]}\n"
}

func TestDirectoryMustExist(t *testing.T) {
	t.Parallel()
	if _, err := New(Options{Dir: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Fatal("no error")
	}
	file := filepath.Join(t.TempDir(), "f")
	writeFile(t, file, "")
	if _, err := New(Options{Dir: file}); err == nil {
		t.Fatal("no error for a file")
	}
}

func TestCreateEditDelete(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a.yaml"), se("a", "a1")+se("b", "b1"))
	writeFile(t, filepath.Join(dir, "sub/deep/c.yml"), se("c", "c1"))
	writeFile(t, filepath.Join(dir, "notes.txt"), se("x", "x"))
	writeFile(t, filepath.Join(dir, ".hidden.yaml"), se("x", "x"))
	w := start(t, dir, "a=a1 b=b1 c=c1")
	if w.sink.synced != 1 {
		t.Errorf("synced %d times", w.sink.synced)
	}
	w.write("a.yaml", se("a", "a2")+se("b", "b1"))
	w.wait("a=a2 b=b1 c=c1")
	w.write("new/d.yaml", se("d", "d1"))
	w.wait("a=a2 b=b1 c=c1 d=d1")
	before := w.sink.events()
	w.write("a.yaml", "# a comment, and another order\n"+se("b", "b1")+se("a", "a2"))
	w.write("new/e.yaml", se("e", "e1"))
	w.wait("a=a2 b=b1 c=c1 d=d1 e=e1")
	if got := w.sink.events() - before; got != 1 {
		t.Errorf("%d events for one new object and unchanged others", got)
	}
	must(t, os.RemoveAll(filepath.Join(dir, "new")))
	w.wait("a=a2 b=b1 c=c1")
	must(t, os.Rename(filepath.Join(dir, "a.yaml"), filepath.Join(dir, "z.yaml")))
	w.write("z2.yaml", se("zz", "zz"))
	w.wait("a=a2 b=b1 c=c1 zz=zz")
}

func TestBreakAndMend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a.yaml"), se("a", "a1")+se("b", "b1"))
	w := start(t, dir, "a=a1 b=b1")
	// A bad field: the object is known, the others go on.
	w.write("a.yaml", strings.Replace(se("a", "a2"), "hosts", "hots", 1)+se("b", "b2"))
	w.wait("a=a1 b=b2 !field a.yaml:5")
	// Broken text: what it held is not known, so nothing of the file is taken away.
	w.write("a.yaml", "---\n{\n"+se("b", "b3"))
	w.wait("a=a1 b=b3 !yaml a.yaml:2")
	w.write("a.yaml", se("b", "b3"))
	w.wait("b=b3")
	// A mistyped kind: the object cannot be told from one that was taken away.
	w.write("a.yaml", strings.Replace(se("b", "b4"), "ServiceEntry", "ServiceEntrie", 1))
	w.wait("b=b3 !kind a.yaml:3")
	w.write("a.yaml", se("b", "b3"))
	w.wait("b=b3")
	// An object that never was good is left out; one that is refused is invalid.
	w.write("c.yaml", se("refused", "c1"))
	w.wait("b=b3 !invalid c.yaml:5")
	w.write("c.yaml", se("fine", "c1"))
	w.wait("b=b3 fine=c1")
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "b.yaml"), se("x", "b1")+se("x", "b2"))
	w := start(t, dir, "x=b1 !duplicate b.yaml:7")
	w.write("a.yaml", se("x", "a1"))
	w.wait("x=a1 !duplicate b.yaml:2 !duplicate b.yaml:7")
	// The first breaks: its last good version stays in force.
	w.write("a.yaml", strings.Replace(se("x", "a2"), "hosts", "hots", 1))
	w.wait("x=a1 !field a.yaml:5 !duplicate b.yaml:7")
	must(t, os.Remove(filepath.Join(dir, "a.yaml")))
	w.wait("x=b1 !duplicate b.yaml:7")
	w.write("b.yaml", se("x", "b2"))
	w.wait("x=b2")
}

func TestEditorsSave(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	writeFile(t, path, se("a", "a0"))
	w := start(t, dir, "a=a0")
	for i := range 20 {
		// Truncate and write, move away and write anew, write beside and rename: all are edits, never deletions.
		text := se("a", fmt.Sprintf("a%d", i+1))
		switch i % 3 {
		case 0:
			must(t, os.Truncate(path, 0))
			w.write("a.yaml", text)
		case 1:
			must(t, os.Rename(path, path+"~"))
			w.write("a.yaml", text)
		case 2:
			w.write(".a.yaml.swp", text)
			must(t, os.Rename(filepath.Join(dir, ".a.yaml.swp"), path))
		}
		w.wait(fmt.Sprintf("a=a%d", i+1))
	}
	for _, e := range w.sink.history {
		if e.Object == nil {
			t.Errorf("%s was deleted by a save", e.Key)
		}
	}
	// An empty file is believed in the end.
	must(t, os.Truncate(path, 0))
	w.wait("")
}

// TestConfigMapVolume swaps the links of a mounted ConfigMap as the kubelet does.
func TestConfigMapVolume(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(n, text string) {
		writeFile(t, filepath.Join(dir, "..v"+n, "a.yaml"), text)
		must(t, os.Symlink("..v"+n, filepath.Join(dir, "..data_tmp")))
		must(t, os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")))
	}
	version("1", se("a", "a1"))
	must(t, os.Symlink("..data/a.yaml", filepath.Join(dir, "a.yaml")))
	must(t, os.Symlink("nowhere", filepath.Join(dir, "dangling.yaml")))
	w := start(t, dir, "a=a1")
	version("2", se("a", "a2"))
	w.wait("a=a2")
	version("3", se("a", "a3"))
	w.wait("a=a3")
	if len(w.sink.history) != 3 {
		t.Errorf("%d events", len(w.sink.history))
	}
}

// TestDirectoryIsLink points the directory itself elsewhere, as git-sync does, and at nothing.
func TestDirectoryIsLink(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "current")
	point := func(to string) {
		must(t, os.Symlink(to, dir+".tmp"))
		must(t, os.Rename(dir+".tmp", dir))
	}
	writeFile(t, filepath.Join(top, "one/a.yaml"), se("a", "a1")+se("b", "b1"))
	writeFile(t, filepath.Join(top, "two/a.yaml"), se("a", "a2"))
	point("one")
	w := start(t, dir, "a=a1 b=b1")
	point("two")
	w.wait("a=a2")
	point("three")
	w.wait("a=a2 !read .:0")
	point("one")
	w.wait("a=a1 b=b1")
}

func TestLinkCycle(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "sub/a.yaml"), se("a", "a1"))
	must(t, os.Symlink("..", filepath.Join(dir, "sub/up")))
	start(t, dir, "a=a1")
}

func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		testUnreadable(t, func(path string) {
			// Root reads everything but a file that is larger than the limit.
			must(t, os.Truncate(path, maxFile+1))
		})
		return
	}
	testUnreadable(t, func(path string) { must(t, os.Chmod(path, 0)) })
}

func testUnreadable(t *testing.T, spoil func(path string)) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "a.yaml")
	writeFile(t, path, se("a", "a1"))
	w := start(t, dir, "a=a1")
	spoil(path)
	w.wait("a=a1 !read a.yaml:0")
	must(t, os.Remove(path))
	w.write("a.yaml", se("a", "a2"))
	w.wait("a=a2")
}

// TestOrderOfAStorm edits one object many times: the last edit is what stays, in the order of the edits.
func TestOrderOfAStorm(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "a.yaml"), se("a", "h"))
	w := start(t, dir, "a=h")
	for i := range 200 {
		w.write("a.yaml", se("a", fmt.Sprint("h", i)))
	}
	w.wait("a=h199")
	last := -1
	for _, e := range w.sink.history[1:] {
		var n int
		if _, err := fmt.Sscanf(e.Object.Spec.(*networking.ServiceEntry).Hosts[0], "h%d", &n); err != nil || n <= last {
			t.Fatalf("%v after h%d", e.Object.Spec, last)
		}
		last = n
	}
}
