package model

import (
	"slices"

	mesh "istio.io/api/mesh/v1alpha1"
)

// narrowVisibility applies the mesh's serviceEntryVisibility to what a ServiceEntry of namespace exports, if sidecars
// honour it.
func (w *discoveryWork) narrowVisibility(v Visibility, namespace string) Visibility {
	rules := w.next.mesh.Config.GetServiceEntryVisibility()
	if rules == nil || !rules.GetApplyToSidecars() {
		return v
	}
	switch entryVisibility(rules, w.namespace(namespace).labels) {
	case mesh.ServiceEntryVisibility_NONE:
		return Visibility{Namespaces: map[string]struct{}{}}
	case mesh.ServiceEntryVisibility_NAMESPACE:
		if v.Allows(namespace) {
			return Visibility{Namespaces: map[string]struct{}{namespace: {}}}
		}
		return Visibility{Namespaces: map[string]struct{}{}}
	default:
		return v
	}
}

// entryVisibility returns what the first policy whose rules all match says, else the default.
func entryVisibility(rules *mesh.ServiceEntryVisibility, labels map[string]string) mesh.ServiceEntryVisibility_Visibility {
	for _, p := range rules.GetPolicies() {
		all := true
		for _, m := range p.GetMatchingRules() {
			all = all && selectorMatches(m.GetNamespaceSelector(), labels)
		}
		if all {
			return p.GetVisibility()
		}
	}
	return rules.GetDefaultVisibility()
}

// selectorMatches evaluates a label selector of the mesh configuration; an invalid operator matches nothing.
func selectorMatches(s *mesh.LabelSelector, labels map[string]string) bool {
	if !LabelsMatch(s.GetMatchLabels(), labels) {
		return false
	}
	for _, e := range s.GetMatchExpressions() {
		value, has := labels[e.GetKey()]
		var ok bool
		switch e.GetOperator() {
		case "In":
			ok = has && slices.Contains(e.GetValues(), value)
		case "NotIn":
			ok = !has || !slices.Contains(e.GetValues(), value)
		case "Exists":
			ok = has
		case "DoesNotExist":
			ok = !has
		}
		if !ok {
			return false
		}
	}
	return true
}
