package kube

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
)

// clusterObject is an object as a client returns it.
type clusterObject interface {
	metav1.Object
	runtime.Object
}

// table is the store that client-go's reflector of one kind fills. It keeps nothing: the hub does.
type table struct {
	hub      *hub
	resource *convert.Resource
	replaced func() // called after each Replace
}

var _ cache.TransformingStore = (*table)(nil)

// converted is a row on the way through the reflector, which needs its key.
type converted struct {
	metav1.ObjectMeta
	row row
}

// Transformer strips objects of a first list as they arrive, so that they are never held in full all at once.
func (t *table) Transformer() cache.TransformFunc {
	return func(v any) (any, error) {
		if _, ok := v.(*converted); ok {
			return v, nil
		}
		o, ok := v.(clusterObject)
		if !ok {
			return v, nil // bookmarks and tombstones
		}
		c := &converted{row: t.hub.convert(t.resource, o)}
		c.Name, c.Namespace = c.row.key.Name, c.row.key.Namespace
		return c, nil
	}
}

func (t *table) row(v any) (row, error) {
	switch o := v.(type) {
	case *converted:
		return o.row, nil
	case clusterObject:
		return t.hub.convert(t.resource, o), nil
	}
	return row{}, fmt.Errorf("reading %s: unexpected type %T", t.resource.Plural, v)
}

// Add implements cache.ReflectorStore.
func (t *table) Add(v any) error {
	r, err := t.row(v)
	if err == nil {
		t.hub.put(r)
	}
	return err
}

// Update implements cache.ReflectorStore.
func (t *table) Update(v any) error { return t.Add(v) }

// Delete implements cache.ReflectorStore.
func (t *table) Delete(v any) error {
	o, ok := v.(metav1.Object)
	if !ok {
		return fmt.Errorf("reading %s: unexpected type %T", t.resource.Plural, v)
	}
	t.hub.remove(model.ObjectKey{Kind: t.resource.Kind, Namespace: o.GetNamespace(), Name: o.GetName()})
	return nil
}

// Replace implements cache.ReflectorStore.
func (t *table) Replace(list []any, _ string) error {
	rows := make([]row, 0, len(list))
	for i, v := range list {
		r, err := t.row(v)
		if err != nil {
			return err
		}
		list[i] = nil // the list may be large
		rows = append(rows, r)
	}
	t.hub.replace(t.resource.Kind, rows)
	t.replaced()
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to resync.
func (t *table) Resync() error { return nil }
