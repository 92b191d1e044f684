package differential

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// collector is a sink that keeps what is in force.
type collector struct {
	mu       sync.Mutex // guards the rest
	objects  map[model.ObjectKey]*model.Object
	problems []source.Problem
	synced   bool
}

func newCollector() *collector { return &collector{objects: map[model.ObjectKey]*model.Object{}} }

// Events implements source.Sink.
func (c *collector) Events(_ string, events []model.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		if e.Object == nil {
			delete(c.objects, e.Key)
		} else {
			c.objects[e.Key] = e.Object
		}
	}
}

// Synced implements source.Sink.
func (c *collector) Synced(string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.synced = true
}

// Problems implements source.Sink.
func (c *collector) Problems(_ string, problems []source.Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.problems = problems
}

// now returns what is in force, or an error before everything is known or while something is wrong.
func (c *collector) now() (map[model.ObjectKey]*model.Object, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.synced:
		return nil, errors.New("not synced")
	case len(c.problems) > 0:
		return nil, fmt.Errorf("problems: %v", c.problems)
	}
	return maps.Clone(c.objects), nil
}

// cluster is a real API server that edits are written to.
type cluster struct {
	client  dynamic.Interface
	catalog *convert.Catalog
}

func newCluster(s *harness.APIServer) (*cluster, error) {
	client, err := dynamic.NewForConfig(s.Config())
	return &cluster{client: client, catalog: convert.NewCatalog()}, err
}

func (c *cluster) of(k model.ObjectKey) dynamic.ResourceInterface {
	r := c.catalog.Kind(k.Kind)
	_, version, grouped := strings.Cut(apiVersion(k.Kind), "/")
	if !grouped {
		version = "v1"
	}
	api := c.client.Resource(schema.GroupVersionResource{Group: r.Group, Version: version, Resource: r.Plural})
	if k.Namespace == "" {
		return api
	}
	return api.Namespace(k.Namespace)
}

// write makes an edit. It returns the manifest with what a cluster must decide filled in, the time of creation and the
// labels of its node that a pod gets; nil if the object does not exist afterwards.
func (c *cluster) write(ctx context.Context, e edit) (tree, error) {
	api := c.of(e.key)
	if e.manifest == nil {
		return nil, c.remove(ctx, e.key)
	}
	given, err := unstructuredOf(e.manifest)
	if err != nil {
		return nil, err
	}
	got, err := c.put(ctx, e.key, given)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) { // a field that cannot be changed
		if err := c.remove(ctx, e.key); err != nil {
			return nil, err
		}
		got, err = api.Create(ctx, given, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", e.key, err)
	}
	if status, ok := given.Object["status"]; ok {
		got.Object["status"] = status
		if got, err = api.UpdateStatus(ctx, got, metav1.UpdateOptions{}); err != nil {
			return nil, fmt.Errorf("writing the status of %s: %w", e.key, err)
		}
	}
	given.SetCreationTimestamp(got.GetCreationTimestamp())
	if e.key.Kind == model.KindPod {
		given.SetLabels(got.GetLabels())
	}
	return given.Object, nil
}

// unstructuredOf copies a manifest into the form that clients take.
func unstructuredOf(manifest tree) (*unstructured.Unstructured, error) {
	b, err := json.Marshal(manifest)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	return u, json.Unmarshal(b, &u.Object)
}

// put creates or replaces an object.
func (c *cluster) put(ctx context.Context, k model.ObjectKey, given *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	api := c.of(k)
	now, err := api.Get(ctx, k.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return api.Create(ctx, given, metav1.CreateOptions{})
	}
	if err != nil {
		return nil, err
	}
	next := given.DeepCopy()
	next.SetResourceVersion(now.GetResourceVersion())
	return api.Update(ctx, next, metav1.UpdateOptions{})
}

func (c *cluster) remove(ctx context.Context, k model.ObjectKey) error {
	zero := int64(0)
	err := c.of(k).Delete(ctx, k.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting %s: %w", k, err)
	}
	return nil
}

// own returns the objects that every cluster has, as manifests.
func (c *cluster) own(ctx context.Context) (map[model.ObjectKey]tree, error) {
	out := map[model.ObjectKey]tree{}
	for _, kind := range []model.Kind{model.KindNamespace, model.KindService, model.KindConfigMap} {
		r := c.catalog.Kind(kind)
		list, err := c.client.Resource(r.Watched()).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", r.Plural, err)
		}
		for i := range list.Items {
			u := &list.Items[i]
			u.SetManagedFields(nil)
			u.SetAPIVersion("v1")
			u.SetKind(string(kind))
			out[model.ObjectKey{Kind: kind, Namespace: u.GetNamespace(), Name: u.GetName()}] = u.Object
		}
	}
	return out, nil
}

// directory is a directory of manifests that edits are written to: one file for each object, or for each kind.
type directory struct {
	path   string
	byKind bool
}

func (d directory) fileOf(k model.ObjectKey) string {
	if d.byKind {
		return string(k.Kind) + ".yaml"
	}
	return fmt.Sprintf("%s.%s.%s.yml", k.Kind, k.Namespace, k.Name)
}

// write brings the file of an object up to date with all manifests.
func (d directory) write(t testing.TB, k model.ObjectKey, all map[model.ObjectKey]tree) {
	t.Helper()
	file := d.fileOf(k)
	var documents []string
	for _, other := range slices.SortedFunc(maps.Keys(all), func(a, b model.ObjectKey) int { return strings.Compare(a.String(), b.String()) }) {
		if d.fileOf(other) != file {
			continue
		}
		b, err := json.MarshalIndent(all[other], "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(b)+"\n")
	}
	if len(documents) == 0 {
		removeFile(t, filepath.Join(d.path, file))
		return
	}
	if err := world.Write(d.path, file, strings.Join(documents, "---\n")); err != nil {
		t.Fatal(err)
	}
}
