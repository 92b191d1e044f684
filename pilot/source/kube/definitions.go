package kube

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
)

// bundleVersion is where a definition of the Gateway API says which release it is of.
const bundleVersion = "gateway.networking.k8s.io/bundle-version"

// oldestBundle returns the release of the Gateway API from which on a kind is read: before, its v1 is missing or
// different.
func oldestBundle(kind model.Kind) string {
	switch kind {
	case model.KindGRPCRoute:
		return "1.1.0"
	case model.KindBackendTLSPolicy:
		return "1.4.0"
	case model.KindTLSRoute:
		return "1.5.0"
	case model.KindTCPRoute:
		return "1.6.0"
	}
	return ""
}

// usable says whether a definition is of a release that can be read.
func usable(r *convert.Resource, annotations map[string]string) bool {
	oldest := oldestBundle(r.Kind)
	if oldest == "" {
		return true
	}
	have, ok := release(annotations[bundleVersion])
	if !ok {
		return false
	}
	want, _ := release(oldest)
	for i := range want {
		if have[i] != want[i] {
			return have[i] > want[i]
		}
	}
	return true
}

// release parses "v1.2.3-rc.1" without its suffix.
func release(s string) (v [3]int, ok bool) {
	s, _, _ = strings.Cut(strings.TrimPrefix(s, "v"), "-")
	parts := strings.Split(s, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// listed says whether a definition's name is in a list of names and "*.group-suffix" patterns.
func listed(crd string, patterns []string) bool {
	for _, p := range patterns {
		if suffix, ok := strings.CutPrefix(p, "*."); ok && strings.HasSuffix(crd, "."+suffix) || p == crd {
			return true
		}
	}
	return false
}

// definitions is the store that the reflector of CustomResourceDefinitions fills. Of each it sees the metadata only.
type definitions struct {
	known   map[string]*convert.Resource       // by name of the definition; fixed at construction
	changed func(r *convert.Resource, on bool) // called without the lock, from the reflector's goroutine
	synced  func()

	mu sync.Mutex // guards on
	on map[string]bool
}

var _ cache.TransformingStore = (*definitions)(nil)

// Transformer keeps of a definition what is read.
func (d *definitions) Transformer() cache.TransformFunc {
	return func(v any) (any, error) {
		m, ok := v.(*metav1.PartialObjectMetadata)
		if !ok {
			return v, nil
		}
		kept := &metav1.PartialObjectMetadata{}
		kept.Name = m.Name
		if b, ok := m.Annotations[bundleVersion]; ok {
			kept.Annotations = map[string]string{bundleVersion: b}
		}
		return kept, nil
	}
}

func (d *definitions) set(name string, on bool) {
	r := d.known[name]
	if r == nil {
		return
	}
	d.mu.Lock()
	same := d.on[name] == on
	d.on[name] = on
	d.mu.Unlock()
	if !same {
		d.changed(r, on)
	}
}

// Add implements cache.ReflectorStore.
func (d *definitions) Add(v any) error {
	m, ok := v.(metav1.Object)
	if !ok {
		return fmt.Errorf("reading definitions: unexpected type %T", v)
	}
	if r := d.known[m.GetName()]; r != nil {
		d.set(m.GetName(), usable(r, m.GetAnnotations()))
	}
	return nil
}

// Update implements cache.ReflectorStore.
func (d *definitions) Update(v any) error { return d.Add(v) }

// Delete implements cache.ReflectorStore.
func (d *definitions) Delete(v any) error {
	m, ok := v.(metav1.Object)
	if !ok {
		return fmt.Errorf("reading definitions: unexpected type %T", v)
	}
	d.set(m.GetName(), false)
	return nil
}

// Replace implements cache.ReflectorStore.
func (d *definitions) Replace(list []any, _ string) error {
	there := map[string]bool{}
	for _, v := range list {
		if m, ok := v.(metav1.Object); ok {
			there[m.GetName()] = true
		}
		if err := d.Add(v); err != nil {
			return err
		}
	}
	for name := range d.known {
		if !there[name] {
			d.set(name, false)
		}
	}
	d.synced()
	return nil
}

// Resync implements cache.ReflectorStore. There is nothing to resync.
func (d *definitions) Resync() error { return nil }
