package differential

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/source/kube"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/validate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/proxy"
)

// worldsVariable is how many random worlds TestDirectoryIsCluster writes, and seedVariable the first one's seed.
const (
	worldsVariable, everydayWorlds = "MIZZEN_WORLDS", 6
	seedVariable                   = "MIZZEN_WORLD_SEED"
)

func number(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

func removeFile(t testing.TB, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// twins are a cluster and a directory that hold the same, with the sources that read them.
type twins struct {
	*testing.T
	cluster   *cluster
	directory directory
	manifests map[model.ObjectKey]tree
	sinks     map[string]*collector
	reader    *proxy.Reader
}

func newTwins(t *testing.T, server *harness.APIServer, byKind bool) *twins {
	t.Helper()
	c, err := newCluster(server)
	if err != nil {
		t.Fatal(err)
	}
	w := &twins{T: t, cluster: c, directory: directory{t.TempDir(), byKind}, sinks: map[string]*collector{}, reader: &proxy.Reader{}}
	if w.manifests, err = c.own(t.Context()); err != nil {
		t.Fatal(err)
	}
	for k := range w.manifests {
		w.directory.write(t, k, w.manifests)
	}
	fromFiles, err := file.New(file.Options{Dir: w.directory.path, Check: validate.Object})
	if err != nil {
		t.Fatal(err)
	}
	fromCluster, err := kube.New(kube.Options{Config: server.Config(), QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	w.follow("directory", fromFiles)
	w.follow("cluster", fromCluster)
	return w
}

// follow runs a source until the test ends.
func (w *twins) follow(name string, s source.Source) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	sink := newCollector()
	w.sinks[name] = sink
	go func() { done <- s.Run(ctx, sink) }()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
}

// write makes edits in both.
func (w *twins) write(edits []edit) {
	w.Helper()
	for _, e := range edits {
		if e.key.Kind == model.KindNamespace && e.manifest == nil {
			continue // without its controller a namespace would stay, ending for ever
		}
		manifest, err := w.cluster.write(w.Context(), e)
		if err != nil {
			w.Fatal(err)
		}
		if w.manifests[e.key] = manifest; manifest == nil {
			delete(w.manifests, e.key)
		}
		w.directory.write(w.T, e.key, w.manifests)
	}
}

// expected decodes what was written.
func (w *twins) expected() map[model.ObjectKey]*model.Object {
	w.Helper()
	out := map[model.ObjectKey]*model.Object{}
	for k, m := range w.manifests {
		ev, err := edit{k, m}.event()
		if err != nil {
			w.Fatal(err)
		}
		if ev.Object != nil {
			out[k] = ev.Object
		}
	}
	return out
}

// compare waits until both sources have delivered what was written, and compares what is made of it.
func (w *twins) compare() {
	w.Helper()
	want := w.expected()
	got := map[string]map[model.ObjectKey]*model.Object{}
	for name, sink := range w.sinks {
		harness.Eventually(w, 20*time.Second, func(context.Context) error {
			objects, err := sink.now()
			if err == nil {
				err = sameObjects(objects, want)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			got[name] = objects
			return nil
		})
	}
	dumps, contents := map[string]map[string]string{}, map[string][]content{}
	for name, objects := range got {
		dumps[name], contents[name] = w.made(objects)
	}
	for _, q := range slices.Sorted(maps.Keys(dumps["cluster"])) {
		if a, b := dumps["directory"][q], dumps["cluster"][q]; a != b {
			w.Errorf("%s: the directory says\n%s\nthe cluster\n%s", q, a, b)
		}
	}
	for i, m := range members() {
		if err := sameSlots(contents["directory"][i].slots, contents["cluster"][i].slots); err != nil {
			w.Errorf("%s: the directory's against the cluster's: %v", m.name, err)
		}
	}
}

// made returns the dump and every member's resources that objects give.
func (w *twins) made(objects map[model.ObjectKey]*model.Object) (map[string]string, []content) {
	w.Helper()
	mesh, err := meshconfig.Parse()
	if err != nil {
		w.Fatal(err)
	}
	p := newPlane(model.DefaultSettings(), mesh)
	defer p.stop()
	var events []model.Event
	for k, o := range objects {
		events = append(events, model.Event{Key: k, Object: o})
	}
	if err := p.apply(events, nil); err != nil {
		w.Fatal(err)
	}
	var out []content
	for _, m := range members() {
		a, err := p.asker(m, true, w.reader)
		if err != nil {
			w.Fatal(err)
		}
		c, err := a.settle(p)
		if err != nil {
			w.Fatal(err)
		}
		out = append(out, c)
	}
	return dump(p.builder.Current(), objects), out
}

// TestDirectoryIsCluster writes random worlds, and changes of them, to a real API server and to a directory: both
// sources deliver the same objects, and the same PushContext and resources are made of them.
func TestDirectoryIsCluster(t *testing.T) {
	t.Parallel()
	server := harness.NewAPIServer(t, harness.APIServerOptions{CRDs: []harness.CRDs{harness.IstioCRDs()}})
	first := number(t, seedVariable, 1)
	for seed := first; seed < first+number(t, worldsVariable, everydayWorlds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			w := newTwins(t, server, seed%2 == 0)
			for _, ns := range []string{"a", "b", rootNamespace} {
				key := model.ObjectKey{Kind: model.KindNamespace, Name: ns}
				w.write([]edit{{key, tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": ns}}}})
			}
			w.write(drawn(seed, 25, 50))
			w.compare()
			for round := range 2 {
				w.write(drawn(1000*seed+round, 4, 12))
				w.compare()
			}
			for _, k := range slices.Collect(maps.Keys(w.manifests)) {
				if k.Namespace != "" && k.Namespace != "default" && k.Namespace != "kube-system" || k.Kind == model.KindNode {
					w.write([]edit{{key: k}})
				}
			}
			w.compare()
		})
	}
}

// drawn returns the edits that a seed stands for.
func drawn(seed, least, most int) []edit {
	return rapid.SliceOfN(rapid.Custom(drawEdit), least, most).Example(seed)
}
