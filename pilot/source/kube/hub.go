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
)

// revisionLabel ties an object to one revision of the control plane.
const revisionLabel = "istio.io/rev"

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
	name, systemNamespace, revision string // fixed at construction
	sink                            source.Sink

	mu        sync.Mutex // guards the rest
	tables    map[model.Kind]map[model.ObjectKey]*model.Object
	selectors []labels.Selector // of namespaces; none selects all
	selected  map[string]bool   // namespaces that are there to whether they are selected
	broken    map[model.ObjectKey]source.Problem
	failures  map[string]source.Problem // of reading kinds, by resource
	problems  []source.Problem          // as delivered
}

func newHub(name, systemNamespace, revision string, sink source.Sink, selectors []labels.Selector) *hub {
	return &hub{
		name: name, systemNamespace: systemNamespace, revision: revision, sink: sink, selectors: selectors,
		tables: map[model.Kind]map[model.ObjectKey]*model.Object{}, selected: map[string]bool{},
		broken: map[model.ObjectKey]source.Problem{}, failures: map[string]source.Problem{},
	}
}

// convert makes a row of an object as the client returned it.
func (h *hub) convert(r *convert.Resource, v clusterObject) row {
	out := row{key: model.ObjectKey{Kind: r.Kind, Namespace: v.GetNamespace(), Name: v.GetName()}}
	if h.revision != "" && r.CustomResource() && r.Kind != model.KindKubernetesGateway {
		if rev := v.GetLabels()[revisionLabel]; rev != "" && rev != h.revision {
			out.foreign = true
			return out
		}
	}
	if out.object, out.problem = r.FromCluster(v); out.object != nil {
		out.object.Origin = h.name
	}
	return out
}

// put takes new versions of objects.
func (h *hub) put(kind model.Kind, rows ...row) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var events []model.Event
	for _, r := range rows {
		events = h.putOne(kind, r, events)
	}
	h.deliver(events)
}

func (h *hub) putOne(kind model.Kind, r row, events []model.Event) []model.Event {
	table := h.tables[kind]
	if table == nil {
		table = map[model.ObjectKey]*model.Object{}
		h.tables[kind] = table
	}
	switch {
	case r.foreign:
		return h.removeOne(kind, r.key, events)
	case r.problem != nil:
		// The last good version stays in force.
		h.broken[r.key] = source.Problem{Code: "field", Object: r.key, Field: r.problem.Path, Message: r.problem.Message}
		return events
	}
	delete(h.broken, r.key)
	if old := table[r.key]; old != nil && convert.Equal(old, r.object) {
		return events
	}
	table[r.key] = r.object
	if h.visible(r.object) {
		events = append(events, model.Event{Key: r.key, Object: r.object})
	}
	if kind == model.KindNamespace {
		events = h.namespace(r.key.Name, events)
	}
	return events
}

// remove takes away objects.
func (h *hub) remove(kind model.Kind, keys ...model.ObjectKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var events []model.Event
	for _, k := range keys {
		events = h.removeOne(kind, k, events)
	}
	h.deliver(events)
}

func (h *hub) removeOne(kind model.Kind, k model.ObjectKey, events []model.Event) []model.Event {
	delete(h.broken, k)
	old := h.tables[kind][k]
	if old == nil {
		return events
	}
	visible := h.visible(old)
	delete(h.tables[kind], k)
	if kind == model.KindNamespace {
		events = h.namespace(k.Name, events)
	}
	if visible {
		events = append(events, model.Event{Key: k})
	}
	return events
}

// replace makes rows the whole of a kind: what is not in them has been deleted unseen.
func (h *hub) replace(kind model.Kind, rows []row) {
	h.mu.Lock()
	defer h.mu.Unlock()
	there := make(map[model.ObjectKey]bool, len(rows))
	var events []model.Event
	for _, r := range rows {
		there[r.key] = true
		events = h.putOne(kind, r, events)
	}
	for _, k := range sortedKeys(h.tables[kind]) {
		if !there[k] {
			events = h.removeOne(kind, k, events)
		}
	}
	for k := range h.broken {
		if k.Kind == kind && !there[k] {
			delete(h.broken, k)
		}
	}
	h.deliver(events)
}

func sortedKeys(m map[model.ObjectKey]*model.Object) []model.ObjectKey {
	return slices.SortedFunc(maps.Keys(m), model.ObjectKey.Compare)
}

// visible says whether an object is delivered: those of namespaces that are not selected are not.
func (h *hub) visible(o *model.Object) bool {
	switch {
	case len(h.selectors) == 0, o.Namespace == "":
		return true
	case o.Kind == model.KindSecret && o.Namespace == h.systemNamespace && convert.RemoteSecret(o.Labels):
		return true
	}
	return h.selected[o.Namespace]
}

// namespace brings what is delivered of a namespace's objects up to date with its labels.
func (h *hub) namespace(name string, events []model.Event) []model.Event {
	ns := h.tables[model.KindNamespace][model.ObjectKey{Kind: model.KindNamespace, Name: name}]
	selected := ns != nil && h.matches(ns)
	if selected == h.selected[name] || len(h.selectors) == 0 {
		h.mark(name, selected)
		return events
	}
	for _, kind := range slices.Sorted(maps.Keys(h.tables)) {
		for _, k := range sortedKeys(h.tables[kind]) {
			o := h.tables[kind][k]
			if k.Namespace != name {
				continue
			}
			before := h.visible(o)
			h.mark(name, selected)
			after := h.visible(o)
			h.mark(name, !selected)
			switch {
			case after && !before:
				events = append(events, model.Event{Key: k, Object: o})
			case before && !after:
				events = append(events, model.Event{Key: k})
			}
		}
	}
	h.mark(name, selected)
	return events
}

func (h *hub) mark(namespace string, selected bool) {
	if selected {
		h.selected[namespace] = true
	} else {
		delete(h.selected, namespace)
	}
}

func (h *hub) matches(ns *model.Object) bool {
	set := labels.Set(ns.Labels)
	return len(h.selectors) == 0 || slices.ContainsFunc(h.selectors, func(s labels.Selector) bool { return s.Matches(set) })
}

// selectNamespaces replaces the selectors.
func (h *hub) selectNamespaces(selectors []labels.Selector) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := map[model.ObjectKey]bool{}
	for _, table := range h.tables {
		for k, o := range table {
			before[k] = h.visible(o)
		}
	}
	h.selectors = selectors
	clear(h.selected)
	for k, ns := range h.tables[model.KindNamespace] {
		h.mark(k.Name, h.matches(ns))
	}
	var events []model.Event
	for _, kind := range slices.Sorted(maps.Keys(h.tables)) {
		for _, k := range sortedKeys(h.tables[kind]) {
			switch o := h.tables[kind][k]; {
			case h.visible(o) && !before[k]:
				events = append(events, model.Event{Key: k, Object: o})
			case !h.visible(o) && before[k]:
				events = append(events, model.Event{Key: k})
			}
		}
	}
	h.deliver(events)
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
