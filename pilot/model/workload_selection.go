package model

import (
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
)

// selection is the workloads that a Service or ServiceEntry selects by labels: for Services only entries, since their
// pods come as slices.
type selection struct {
	selector map[string]string
	pods     bool
	hosts    []ServiceKey
	members  map[ObjectKey]*Workload
}

// labelPair is what selections are found by: one pair of the selector, or no pair for a selector that is empty.
type labelPair struct{ namespace, key, value string }

// anchor picks the pair that a selector is found by.
func anchor(namespace string, selector map[string]string) labelPair {
	var first string
	for k := range selector {
		if first == "" || k < first {
			first = k
		}
	}
	return labelPair{namespace, first, selector[first]}
}

func (s *selection) selects(x *Workload) bool {
	if x == nil || !x.Ready || x.Object.Kind == KindPod && !s.pods {
		return false
	}
	if !s.pods && !x.labelled {
		return false
	}
	return LabelsMatch(s.selector, x.Labels)
}

// selectionsOf returns the owners of selections that may match x.
func (w *discoveryWork) selectionsOf(x *Workload) map[ObjectKey]struct{} {
	if len(w.selections) == 0 {
		return nil
	}
	out := map[ObjectKey]struct{}{}
	collect := func(p labelPair) {
		for owner := range w.selectionIndex[p] {
			out[owner] = struct{}{}
		}
	}
	collect(labelPair{namespace: x.Namespace})
	for k, v := range x.Labels {
		collect(labelPair{x.Namespace, k, v})
	}
	return out
}

// moveSelected brings the owner's selection up to date with the workload k, which is x now.
func (w *discoveryWork) moveSelected(owner, k ObjectKey, x *Workload) {
	s := w.selections[owner]
	_, was := s.members[k]
	is := s.selects(x)
	if is {
		s.members[k] = x
	} else {
		delete(s.members, k)
	}
	if was || is {
		for _, h := range s.hosts {
			w.dirtyEndpoint(h)
		}
	}
}

// deriveSelections rebuilds the selections of changed Services and ServiceEntries. Their services are dirty already.
func (w *discoveryWork) deriveSelections() {
	for owner := range w.dirtySelections {
		if old := w.selections[owner]; old != nil {
			p := anchor(owner.Namespace, old.selector)
			delete(w.selectionIndex[p], owner)
			if len(w.selectionIndex[p]) == 0 {
				delete(w.selectionIndex, p)
			}
			delete(w.selections, owner)
		}
		o, _ := w.next.objects[owner.Kind].Get(owner.Row())
		if s := w.selectionOf(o); s != nil {
			w.addSelection(owner, s)
		}
	}
}

func (w *discoveryWork) addSelection(owner ObjectKey, s *selection) {
	s.members = map[ObjectKey]*Workload{}
	sources := []workloadMap{w.entries}
	if s.pods {
		sources = append(sources, w.pods)
	}
	for _, m := range sources {
		for _, x := range m[owner.Namespace] {
			if s.selects(x) {
				s.members[x.Object] = x
			}
		}
	}
	w.selections[owner] = s
	p := anchor(owner.Namespace, s.selector)
	if w.selectionIndex[p] == nil {
		w.selectionIndex[p] = map[ObjectKey]struct{}{}
	}
	w.selectionIndex[p][owner] = struct{}{}
}

func (w *discoveryWork) selectionOf(o *Object) *selection {
	if o == nil {
		return nil
	}
	switch spec := o.Spec.(type) {
	case *corev1.Service:
		if len(spec.Spec.Selector) > 0 {
			return &selection{
				selector: spec.Spec.Selector, hosts: []ServiceKey{w.kubernetesKey(o.Namespace, o.Name)},
			}
		}
	case *networking.ServiceEntry:
		if selector := entrySelector(spec); selector != nil {
			s := &selection{selector: selector, pods: true}
			for _, h := range entryHosts(o) {
				s.hosts = append(s.hosts, ServiceKey{h, o.Namespace})
			}
			return s
		}
	}
	return nil
}
