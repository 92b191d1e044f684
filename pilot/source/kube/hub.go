package kube

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
	"github.com/mizzen-mesh/mizzen/pilot/source/selection"
)

// row is one object as it was read: good, or with what is wrong with it.
type row struct {
	key     model.ObjectKey
	object  *model.Object // nil if it cannot be used
	problem *convert.FieldError
	foreign bool // it is another revision's
}

// hub holds what was read, decides what of it is delivered, and delivers it. Its methods deliver before they return, so
// that events of one object come in order.
type hub struct {
	name, revision string // fixed at construction, as the next
	sink           source.Sink

	mu       sync.Mutex // guards the rest
	filter   *selection.Filter
	broken   map[model.ObjectKey]source.Problem
	failures map[string]source.Problem // of reading kinds, by resource
	problems []source.Problem          // as delivered
}

func newHub(name, systemNamespace, revision string, sink source.Sink, selectors []labels.Selector) *hub {
	return &hub{
		name: name, revision: revision, sink: sink, filter: selection.NewFilter(systemNamespace, selectors),
		broken: map[model.ObjectKey]source.Problem{}, failures: map[string]source.Problem{},
	}
}

// convert makes a row of an object as the client returned it.
func (h *hub) convert(r *convert.Resource, v clusterObject) row {
	out := row{key: model.ObjectKey{Kind: r.Kind, Namespace: v.GetNamespace(), Name: v.GetName()}}
	if selection.Foreign(r, h.revision, v.GetLabels()) {
		out.foreign = true
		return out
	}
	if out.object, out.problem = r.FromCluster(v); out.object != nil {
		out.object.Origin = h.name
	}
	return out
}

// put takes new versions of objects.
func (h *hub) put(rows ...row) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var events []model.Event
	for _, r := range rows {
		events = h.putOne(r, events)
	}
	h.deliver(events)
}

func (h *hub) putOne(r row, events []model.Event) []model.Event {
	switch {
	case r.foreign:
		return h.removeOne(r.key, events)
	case r.problem != nil:
		// The last good version stays in force.
		h.broken[r.key] = source.Problem{Code: "field", Object: r.key, Field: r.problem.Path, Message: r.problem.Message}
		return events
	}
	delete(h.broken, r.key)
	if old := h.filter.Get(r.key); old != nil && convert.Equal(old, r.object) {
		return events
	}
	return h.filter.Put(r.object, events)
}

// remove takes away objects.
func (h *hub) remove(keys ...model.ObjectKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var events []model.Event
	for _, k := range keys {
		events = h.removeOne(k, events)
	}
	h.deliver(events)
}

func (h *hub) removeOne(k model.ObjectKey, events []model.Event) []model.Event {
	delete(h.broken, k)
	return h.filter.Remove(k, events)
}

// replace makes rows the whole of a kind: what is not in them has been deleted unseen.
func (h *hub) replace(kind model.Kind, rows []row) {
	h.mu.Lock()
	defer h.mu.Unlock()
	there := make(map[model.ObjectKey]bool, len(rows))
	var events []model.Event
	for _, r := range rows {
		there[r.key] = true
		events = h.putOne(r, events)
	}
	for _, k := range h.filter.Keys(kind) {
		if !there[k] {
			events = h.removeOne(k, events)
		}
	}
	for k := range h.broken {
		if k.Kind == kind && !there[k] {
			delete(h.broken, k)
		}
	}
	h.deliver(events)
}

// selectNamespaces replaces the selectors.
func (h *hub) selectNamespaces(selectors []labels.Selector) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deliver(h.filter.Select(selectors))
}

// failed notes that a resource cannot be read, or can again.
func (h *hub) failed(resource string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		delete(h.failures, resource)
	} else {
		h.failures[resource] = source.Problem{Code: "read", Field: resource, Message: err.Error()}
	}
	h.deliver(nil)
}

// deliver sends events, and problems if they have changed.
func (h *hub) deliver(events []model.Event) {
	if len(events) > 0 {
		h.sink.Events(h.name, events)
	}
	if len(h.broken)+len(h.failures)+len(h.problems) == 0 {
		return
	}
	now := slices.Concat(slices.Collect(maps.Values(h.broken)), slices.Collect(maps.Values(h.failures)))
	slices.SortFunc(now, func(a, b source.Problem) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), a.Object.Compare(b.Object), cmp.Compare(a.Field, b.Field))
	})
	if slices.Equal(now, h.problems) {
		return
	}
	h.problems = now
	h.sink.Problems(h.name, slices.Clone(now))
}
