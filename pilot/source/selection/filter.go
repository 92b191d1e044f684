// Package selection decides which of a source's objects count: those of the control plane's revision, in namespaces that
// meshConfig.discoverySelectors choose. What is chosen may change at any time, so a filter keeps what it leaves out.
package selection

import (
	"fmt"
	"maps"
	"slices"

	mesh "istio.io/api/mesh/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
)

// RevisionLabel ties an object to one revision of the control plane.
const RevisionLabel = "istio.io/rev"

// Parse makes selectors of mesh configuration's discoverySelectors. An error names the one that is invalid.
func Parse(given []*mesh.LabelSelector) ([]labels.Selector, error) {
	var out []labels.Selector
	for i, g := range given {
		selector := &metav1.LabelSelector{MatchLabels: g.GetMatchLabels()}
		for _, e := range g.GetMatchExpressions() {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
				Key: e.GetKey(), Operator: metav1.LabelSelectorOperator(e.GetOperator()), Values: e.GetValues(),
			})
		}
		sel, err := metav1.LabelSelectorAsSelector(selector)
		if err != nil {
			return nil, fmt.Errorf("discoverySelectors[%d]: %w", i, err)
		}
		out = append(out, sel)
	}
	return out, nil
}

// Foreign tells whether an object is for another revision of the control plane. A control plane without a revision takes
// all. Whose the Gateways of the Gateway API are is decided by tags, elsewhere.
func Foreign(r *convert.Resource, revision string, of map[string]string) bool {
	if revision == "" || !r.CustomResource() || r.Kind == model.KindKubernetesGateway {
		return false
	}
	label := of[RevisionLabel]
	return label != "" && label != revision
}

// Filter holds a source's objects and decides which are visible. It is for use by one goroutine.
type Filter struct {
	systemNamespace string
	tables          map[model.Kind]map[model.ObjectKey]*model.Object
	selectors       []labels.Selector // of namespaces; none selects all
	selected        map[string]bool   // namespaces that are there to whether they are selected
}

// NewFilter returns an empty filter. Remote secrets in the system namespace are visible whatever the selectors say.
func NewFilter(systemNamespace string, selectors []labels.Selector) *Filter {
	return &Filter{
		systemNamespace: systemNamespace, selectors: selectors,
		tables: map[model.Kind]map[model.ObjectKey]*model.Object{}, selected: map[string]bool{},
	}
}

// Get returns an object, visible or not, or nil.
func (f *Filter) Get(k model.ObjectKey) *model.Object { return f.tables[k.Kind][k] }

// Keys returns the objects of a kind in order.
func (f *Filter) Keys(kind model.Kind) []model.ObjectKey {
	return slices.SortedFunc(maps.Keys(f.tables[kind]), model.ObjectKey.Compare)
}

// Put takes a new version of an object and returns events with what changes by it added.
func (f *Filter) Put(o *model.Object, events []model.Event) []model.Event {
	table := f.tables[o.Kind]
	if table == nil {
		table = map[model.ObjectKey]*model.Object{}
		f.tables[o.Kind] = table
	}
	table[o.ObjectKey] = o
	if f.visible(o) {
		events = append(events, model.Event{Key: o.ObjectKey, Object: o})
	}
	if o.Kind == model.KindNamespace {
		events = f.namespace(o.Name, events)
	}
	return events
}

// Remove takes away an object and returns events with what changes by it added.
func (f *Filter) Remove(k model.ObjectKey, events []model.Event) []model.Event {
	old := f.Get(k)
	if old == nil {
		return events
	}
	visible := f.visible(old)
	delete(f.tables[k.Kind], k)
	if k.Kind == model.KindNamespace {
		events = f.namespace(k.Name, events)
	}
	if visible {
		events = append(events, model.Event{Key: k})
	}
	return events
}

// Select replaces the selectors and returns what changes by it.
func (f *Filter) Select(selectors []labels.Selector) []model.Event {
	before := map[model.ObjectKey]bool{}
	for _, table := range f.tables {
		for k, o := range table {
			before[k] = f.visible(o)
		}
	}
	f.selectors = selectors
	clear(f.selected)
	for k, ns := range f.tables[model.KindNamespace] {
		f.mark(k.Name, f.matches(ns))
	}
	return f.changes(func(k model.ObjectKey) bool { return before[k] }, "")
}

// visible says whether an object is delivered: those of namespaces that are not selected are not.
func (f *Filter) visible(o *model.Object) bool {
	switch {
	case len(f.selectors) == 0, o.Namespace == "":
		return true
	case o.Kind == model.KindSecret && o.Namespace == f.systemNamespace && convert.RemoteSecret(o.Labels):
		return true
	}
	return f.selected[o.Namespace]
}

// namespace brings what is visible of a namespace's objects up to date with its labels.
func (f *Filter) namespace(name string, events []model.Event) []model.Event {
	ns := f.Get(model.ObjectKey{Kind: model.KindNamespace, Name: name})
	selected := ns != nil && f.matches(ns)
	if selected == f.selected[name] || len(f.selectors) == 0 {
		f.mark(name, selected)
		return events
	}
	before := map[model.ObjectKey]bool{}
	for _, table := range f.tables {
		for k, o := range table {
			if k.Namespace == name {
				before[k] = f.visible(o)
			}
		}
	}
	f.mark(name, selected)
	return append(events, f.changes(func(k model.ObjectKey) bool { return before[k] }, name)...)
}

// changes returns what has become visible or ceased to be, in order; of one namespace if one is named.
func (f *Filter) changes(before func(model.ObjectKey) bool, namespace string) []model.Event {
	var events []model.Event
	for _, kind := range slices.Sorted(maps.Keys(f.tables)) {
		for _, k := range f.Keys(kind) {
			if namespace != "" && k.Namespace != namespace {
				continue
			}
			switch o := f.tables[kind][k]; {
			case f.visible(o) && !before(k):
				events = append(events, model.Event{Key: k, Object: o})
			case !f.visible(o) && before(k):
				events = append(events, model.Event{Key: k})
			}
		}
	}
	return events
}

func (f *Filter) mark(namespace string, selected bool) {
	if selected {
		f.selected[namespace] = true
	} else {
		delete(f.selected, namespace)
	}
}

func (f *Filter) matches(ns *model.Object) bool {
	set := labels.Set(ns.Labels)
	return len(f.selectors) == 0 || slices.ContainsFunc(f.selectors, func(s labels.Selector) bool { return s.Matches(set) })
}
