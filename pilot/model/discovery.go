package model

import (
	"slices"
	"strings"

	"github.com/mizzen-mesh/mizzen/pkg/store"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// discoveryState is what the builder keeps to derive services, endpoints and workloads key by key. Rows are
// "namespace/name"; service rows are "namespace/host".
type discoveryState struct {
	slices    index // service row -> rows of its EndpointSlices
	podSlices index // pod row -> rows of the slices that name it
	ipSlices  index // "namespace/ip" -> rows of the slices that hold the address without naming a pod
	nodePods  index // node -> pod rows
	entries   index // service row -> rows of the ServiceEntries that define it
	selecting index // namespace -> rows of ServiceEntries with a workload selector
	aliases   index // target host -> rows of Alias services
}

func (s *discoveryState) start() {
	s.slices, s.podSlices, s.ipSlices, s.nodePods = index{}, index{}, index{}, index{}
	s.entries, s.selecting, s.aliases = index{}, index{}, index{}
}

// discovery is one derivation under way: what must be recomputed, and the tables being written.
type discovery struct {
	*commit
	state     *discoveryState
	settings  *Settings
	workloads map[ObjectKey]struct{}
	services  map[string]struct{}
	endpoints map[string]struct{}
}

// deriveDiscovery brings services, hosts, visibility, endpoints, aliases and workloads up to date with c.changes.
func (b *Builder) deriveDiscovery(c *commit) {
	d := &discovery{
		commit: c, state: &b.discoveryState, settings: c.next.settings,
		workloads: map[ObjectKey]struct{}{}, services: map[string]struct{}{}, endpoints: map[string]struct{}{},
	}
	for _, ch := range c.changes {
		d.note(ch)
	}
	if c.mesh || d.networkChanged() {
		d.everything()
	}
	d.deriveWorkloads()
	d.deriveServices()
	d.deriveEndpoints()
}

func (d *discovery) hostOf(namespace, name string) string {
	return name + "." + namespace + ".svc." + d.settings.Domain
}

// note marks what one changed object concerns, and keeps the indexes.
func (d *discovery) note(ch change) {
	switch ch.key.Kind {
	case KindService:
		row := ch.key.Namespace + "/" + d.hostOf(ch.key.Namespace, ch.key.Name)
		d.services[row], d.endpoints[row] = struct{}{}, struct{}{}
	case KindServiceEntry:
		d.noteEntry(ch.key, ch.old, false)
		d.noteEntry(ch.key, ch.new, true)
	case KindEndpointSlice:
		d.noteSlice(ch.key, ch.old, false)
		d.noteSlice(ch.key, ch.new, true)
	case KindPod:
		d.notePod(ch.key, ch.old, false)
		d.notePod(ch.key, ch.new, true)
	case KindWorkloadEntry:
		d.workloads[ch.key] = struct{}{}
		for _, o := range []*Object{ch.old, ch.new} {
			if o != nil {
				d.noteSelected(o.Namespace)
				d.noteServicesSelecting(o.Namespace, entryLabels(o))
			}
		}
	case KindNode:
		for row := range d.state.nodePods[ch.key.Name] {
			d.notePodRow(row)
		}
	case KindNamespace:
		d.noteNamespace(ch.key.Name)
	}
}

func (d *discovery) noteNamespace(namespace string) {
	for row := range d.prev.services.Prefix(namespace + "/") {
		d.services[row] = struct{}{}
	}
}

func (d *discovery) noteEntry(key ObjectKey, o *Object, add bool) {
	if o == nil {
		return
	}
	spec, ok := o.Spec.(*networking.ServiceEntry)
	if !ok {
		return
	}
	edit := d.state.entries.drop
	selecting := d.state.selecting.drop
	if add {
		edit, selecting = d.state.entries.add, d.state.selecting.add
	}
	for _, h := range spec.GetHosts() {
		row := key.Namespace + "/" + h
		edit(row, key.Row())
		d.services[row], d.endpoints[row] = struct{}{}, struct{}{}
	}
	if spec.GetWorkloadSelector() != nil {
		selecting(key.Namespace, key.Row())
	}
}

func sliceService(o *Object) (string, bool) {
	if o.Labels["multicluster.kubernetes.io/service-name"] != "" {
		return "", false
	}
	name := o.Labels[discoveryv1.LabelServiceName]
	return name, name != ""
}

func (d *discovery) noteSlice(key ObjectKey, o *Object, add bool) {
	if o == nil {
		return
	}
	slice, ok := o.Spec.(*discoveryv1.EndpointSlice)
	name, named := sliceService(o)
	if !ok || !named {
		return
	}
	row := key.Namespace + "/" + d.hostOf(key.Namespace, name)
	edit := index.drop
	if add {
		edit = index.add
	}
	edit(d.state.slices, row, key.Row())
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		if ref := e.TargetRef; ref != nil && ref.Kind == "Pod" {
			edit(d.state.podSlices, key.Namespace+"/"+ref.Name, key.Row())
			continue
		}
		for _, a := range e.Addresses {
			edit(d.state.ipSlices, key.Namespace+"/"+a, key.Row())
		}
	}
	d.endpoints[row] = struct{}{}
}

func (d *discovery) notePod(key ObjectKey, o *Object, add bool) {
	d.workloads[key] = struct{}{}
	if o == nil {
		return
	}
	pod, ok := o.Spec.(*corev1.Pod)
	if !ok {
		return
	}
	if pod.Spec.NodeName != "" {
		if add {
			d.state.nodePods.add(pod.Spec.NodeName, key.Row())
		} else {
			d.state.nodePods.drop(pod.Spec.NodeName, key.Row())
		}
	}
	d.noteSlices(d.state.podSlices[key.Row()])
	for _, ip := range podIPs(pod) {
		d.noteSlices(d.state.ipSlices[key.Namespace+"/"+ip])
	}
	d.noteSelected(key.Namespace)
}

func (d *discovery) notePodRow(row string) {
	o, ok := d.next.objects[KindPod].Get(row)
	if !ok {
		return
	}
	d.workloads[o.ObjectKey] = struct{}{}
	d.noteSlices(d.state.podSlices[row])
	d.noteSelected(o.Namespace)
}

func (d *discovery) noteSlices(rows rowSet) {
	for row := range rows {
		if o, ok := d.next.objects[KindEndpointSlice].Get(row); ok {
			if name, named := sliceService(o); named {
				d.endpoints[o.Namespace+"/"+d.hostOf(o.Namespace, name)] = struct{}{}
			}
		}
	}
}

// noteSelected marks the ServiceEntries of a namespace that select workloads. Whether they take this one is for the
// derivation to say: selectors may test labels that it adds.
func (d *discovery) noteSelected(namespace string) {
	for row := range d.state.selecting[namespace] {
		o, ok := d.next.objects[KindServiceEntry].Get(row)
		if !ok {
			continue
		}
		spec, _ := o.Spec.(*networking.ServiceEntry)
		for _, h := range spec.GetHosts() {
			d.endpoints[namespace+"/"+h] = struct{}{}
		}
	}
}

// noteServicesSelecting marks the Kubernetes Services of a namespace that select a WorkloadEntry with the labels.
func (d *discovery) noteServicesSelecting(namespace string, labels map[string]string) {
	for row, o := range d.next.objects[KindService].Prefix(namespace + "/") {
		svc, ok := o.Spec.(*corev1.Service)
		if ok && len(svc.Spec.Selector) > 0 && subset(svc.Spec.Selector, labels) {
			_, name, _ := strings.Cut(row, "/")
			d.endpoints[namespace+"/"+d.hostOf(namespace, name)] = struct{}{}
		}
	}
}

// networkChanged tells whether the label that gives all endpoints their network differs.
func (d *discovery) networkChanged() bool {
	old, _ := d.prev.objects[KindNamespace].Get("/" + d.settings.SystemNamespace)
	now, _ := d.next.objects[KindNamespace].Get("/" + d.settings.SystemNamespace)
	return networkLabel(old) != networkLabel(now)
}

func networkLabel(o *Object) string {
	if o == nil {
		return ""
	}
	return o.Labels[labelNetwork]
}

// everything marks all there is.
func (d *discovery) everything() {
	for _, o := range d.next.objects[KindPod].All() {
		d.workloads[o.ObjectKey] = struct{}{}
	}
	for _, o := range d.next.objects[KindWorkloadEntry].All() {
		d.workloads[o.ObjectKey] = struct{}{}
	}
	for _, t := range []store.Table[*Object]{d.next.objects[KindService], d.next.objects[KindServiceEntry]} {
		for _, o := range t.All() {
			d.note(change{key: o.ObjectKey, new: o})
		}
	}
}

// subset tells whether labels has all of want.
func subset(want, labels map[string]string) bool {
	for k, v := range want {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func sortedKeys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
