package model

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

const (
	labelServiceName    = "kubernetes.io/service-name"
	labelMCSServiceName = "multicluster.kubernetes.io/service-name"
)

// note brings the indexes up to date with one changed object, and marks what depends on it directly.
func (w *discoveryWork) note(ch change) {
	switch ch.key.Kind {
	case KindPod:
		w.notePod(ch)
	case KindWorkloadEntry:
		w.dirtyWorkloads[ch.key] = struct{}{}
	case KindNode:
		w.noteNode(ch)
	case KindNamespace:
		w.noteNamespace(ch)
	case KindService:
		w.noteService(ch)
	case KindServiceEntry:
		w.noteEntry(ch)
	case KindEndpointSlice:
		w.noteSlice(ch)
	}
}

func (w *discoveryWork) notePod(ch change) {
	w.dirtyWorkloads[ch.key] = struct{}{}
	row, before, after := ch.key.Row(), podNode(ch.old), podNode(ch.new)
	if before == after {
		return
	}
	if before != "" {
		w.nodePods.drop(before, row)
	}
	if after != "" {
		w.nodePods.add(after, row)
	}
}

func podNode(o *Object) string {
	if o == nil {
		return ""
	}
	if p, ok := o.Spec.(*corev1.Pod); ok {
		return p.Spec.NodeName
	}
	return ""
}

func (w *discoveryWork) noteNode(ch change) {
	if nodeLocality(ch.old) != nodeLocality(ch.new) {
		for row := range w.nodePods[ch.key.Name] {
			w.dirtyWorkloads[keyOfRow(KindPod, row)] = struct{}{}
		}
	}
	if len(w.nodeServices) == 0 {
		return
	}
	before, after := nodeExternalIP(ch.old), nodeExternalIP(ch.new)
	if before == "" && after == "" || before == after && maps.Equal(labelsOf(ch.old), labelsOf(ch.new)) {
		return
	}
	for row := range w.nodeServices {
		k := keyOfRow(KindService, row)
		w.dirtyService(w.kubernetesKey(k.Namespace, k.Name))
	}
}

func labelsOf(o *Object) map[string]string {
	if o == nil {
		return nil
	}
	return o.Labels
}

// keyOfRow takes ObjectKey.Row apart.
func keyOfRow(k Kind, row string) ObjectKey {
	ns, name, _ := strings.Cut(row, "/")
	return ObjectKey{Kind: k, Namespace: ns, Name: name}
}

func (w *discoveryWork) noteNamespace(ch change) {
	name := ch.key.Name
	if name == w.next.settings.SystemNamespace && labelsOf(ch.old)[labelNetwork] != labelsOf(ch.new)[labelNetwork] {
		w.allWorkloads()
		for row, list := range w.candidates {
			w.dirtyEndpoints[row] = list[0].ServiceKey
		}
	}
	for _, s := range w.prev.services.Prefix(name + "/") {
		w.dirtyService(s.ServiceKey)
	}
}

func (w *discoveryWork) noteService(ch change) {
	w.dirtyService(w.kubernetesKey(ch.key.Namespace, ch.key.Name))
	w.dirtySelections[ch.key] = struct{}{}
	if ch.new != nil {
		if _, ok := nodeSelector(ch.new); ok {
			w.nodeServices.add(ch.key.Row())
			return
		}
	}
	delete(w.nodeServices, ch.key.Row())
}

func (w *discoveryWork) noteEntry(ch change) {
	before, after := entryHosts(ch.old), entryHosts(ch.new)
	for _, h := range before {
		k := ServiceKey{h, ch.key.Namespace}
		w.dirtyService(k)
		w.dirtyEndpoint(k)
		if !slices.Contains(after, h) {
			w.hostEntries.drop(k.String(), ch.key.Row())
		}
	}
	for _, h := range after {
		k := ServiceKey{h, ch.key.Namespace}
		w.dirtyService(k)
		w.dirtyEndpoint(k)
		w.hostEntries.add(k.String(), ch.key.Row())
	}
	w.dirtySelections[ch.key] = struct{}{}
}

// sliceFacts is what the indexes hold about an EndpointSlice.
type sliceFacts struct {
	service   string   // row of the service, empty for slices that do not count
	pods      []string // rows
	addresses []string // "namespace/address"
}

func factsOf(o *Object) sliceFacts {
	if o == nil {
		return sliceFacts{}
	}
	s, ok := o.Spec.(*discoveryv1.EndpointSlice)
	name := o.Labels[labelServiceName]
	if _, mcs := o.Labels[labelMCSServiceName]; !ok || mcs || name == "" || s.AddressType == discoveryv1.AddressTypeFQDN {
		return sliceFacts{}
	}
	f := sliceFacts{service: o.Namespace + "/" + name}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if row, ok := podReference(e, o.Namespace); ok {
			f.pods = append(f.pods, row)
			continue
		}
		for _, a := range e.Addresses {
			f.addresses = append(f.addresses, o.Namespace+"/"+a)
		}
	}
	return f
}

// podReference returns the row of the pod that an endpoint refers to.
func podReference(e *discoveryv1.Endpoint, namespace string) (row string, ok bool) {
	ref := e.TargetRef
	if ref == nil || ref.Kind != string(KindPod) {
		return "", false
	}
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	return namespace + "/" + ref.Name, true
}

func (w *discoveryWork) noteSlice(ch change) {
	row := ch.key.Row()
	before, after := factsOf(ch.old), factsOf(ch.new)
	for _, s := range []string{before.service, after.service} {
		if s != "" {
			k := keyOfRow(KindService, s)
			w.dirtyEndpoint(w.kubernetesKey(k.Namespace, k.Name))
		}
	}
	if before.service != after.service {
		reindex(w.serviceSlices, row, nonEmpty(before.service), nonEmpty(after.service))
	}
	reindex(w.podSlices, row, before.pods, after.pods)
	reindex(w.addressSlices, row, before.addresses, after.addresses)
}

func nonEmpty(s string) []string {
	if s == "" {
		return nil
	}
	return []string{s}
}

// reindex moves row from the names before to the names after.
func reindex(x index, row string, before, after []string) {
	if slices.Equal(before, after) {
		return
	}
	keep := make(rowSet, len(after))
	for _, name := range after {
		keep.add(name)
		x.add(name, row)
	}
	for _, name := range before {
		if _, ok := keep[name]; !ok {
			x.drop(name, row)
		}
	}
}
