package model

import (
	"reflect"
	"slices"
	"strings"

	"github.com/mizzen-mesh/mizzen/pkg/store"
)

// workloadMap holds workloads by namespace and name.
type workloadMap map[string]map[string]*Workload

func (m workloadMap) get(namespace, name string) *Workload { return m[namespace][name] }

func (m workloadMap) set(namespace, name string, x *Workload) {
	if x == nil {
		delete(m[namespace], name)
		if len(m[namespace]) == 0 {
			delete(m, namespace)
		}
		return
	}
	if m[namespace] == nil {
		m[namespace] = map[string]*Workload{}
	}
	m[namespace][name] = x
}

// address returns the workload's first address, or nothing.
func (x *Workload) address() string {
	if len(x.IPs) == 0 {
		return ""
	}
	return x.IPs[0]
}

func (w *discoveryWork) workload(k ObjectKey) *Workload {
	if k.Kind == KindPod {
		return w.pods.get(k.Namespace, k.Name)
	}
	return w.entries.get(k.Namespace, k.Name)
}

func (w *discoveryWork) deriveWorkloads() {
	for k := range w.dirtyWorkloads {
		w.deriveWorkload(k)
	}
	ips := w.next.workloadIPs.Txn()
	for ip := range w.dirtyAddresses {
		w.deriveAddress(ips, ip)
	}
	w.next.workloads, w.next.workloadIPs = w.workloads.Commit(), ips.Commit()
}

func (w *discoveryWork) deriveWorkload(k ObjectKey) {
	before := w.workload(k)
	var after *Workload
	if o, ok := w.next.objects[k.Kind].Get(k.Row()); ok {
		if k.Kind == KindPod {
			after = w.podWorkload(o)
		} else {
			after = w.entryWorkload(o)
		}
	}
	if before == after || before != nil && after != nil && reflect.DeepEqual(before, after) {
		return
	}
	if k.Kind == KindPod {
		w.pods.set(k.Namespace, k.Name, after)
	} else {
		w.entries.set(k.Namespace, k.Name, after)
	}
	w.setWorkloadRow(k, after)
	w.moveAddresses(k, before, after)
	w.markWorkloadUsers(k, before, after)
}

// setWorkloadRow stores a pod under its name. Entries are found by address only: the labels of a virtual machine's
// proxy are those it states itself, and a pod may have the same name.
func (w *discoveryWork) setWorkloadRow(k ObjectKey, now *Workload) {
	row := w.next.settings.ClusterID + "/" + k.Row()
	if k.Kind == KindWorkloadEntry {
		row = w.next.settings.ClusterID + "/" + k.Namespace + "/entry:" + k.Name
	}
	if now == nil {
		w.workloads.Delete(row)
	} else {
		w.workloads.Set(row, now)
	}
	w.touch(TableWorkload, row)
}

func (w *discoveryWork) moveAddresses(k ObjectKey, before, after *Workload) {
	var old, now []string
	if before != nil {
		old = before.IPs
	}
	if after != nil {
		now = after.IPs
	}
	reindex(w.addresses, k.String(), old, now)
	for _, list := range [][]string{old, now} {
		for _, ip := range list {
			w.dirtyAddresses.add(ip)
		}
	}
}

// deriveAddress stores the workloads of an address: pods before entries, by namespace and name.
func (w *discoveryWork) deriveAddress(ips *store.Txn[[]*Workload], ip string) {
	w.touch(TableWorkload, "ip/"+ip)
	keys := make([]string, 0, len(w.addresses[ip]))
	for k := range w.addresses[ip] {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	list := make([]*Workload, 0, len(keys))
	for _, k := range keys {
		kind, row, _ := strings.Cut(k, "/")
		list = append(list, w.workload(keyOfRow(Kind(kind), row)))
	}
	setRows(ips, ip, list)
}

// markWorkloadUsers marks the services whose endpoints a changed workload is, was or becomes.
func (w *discoveryWork) markWorkloadUsers(k ObjectKey, before, after *Workload) {
	if k.Kind == KindPod {
		w.markSlices(w.podSlices[k.Row()])
	}
	for _, x := range []*Workload{before, after} {
		if x == nil {
			continue
		}
		if k.Kind == KindPod {
			for _, ip := range x.IPs {
				w.markSlices(w.addressSlices[k.Namespace+"/"+ip])
			}
		}
		for pair := range w.selectionsOf(x) {
			w.moveSelected(pair, k, after)
		}
	}
}

func (w *discoveryWork) markSlices(rows rowSet) {
	for row := range rows {
		o, ok := w.next.objects[KindEndpointSlice].Get(row)
		if !ok {
			continue
		}
		if s := factsService(o); s != "" {
			k := keyOfRow(KindService, s)
			w.dirtyEndpoint(w.kubernetesKey(k.Namespace, k.Name))
		}
	}
}

// factsService returns the row of the service that an EndpointSlice belongs to.
func factsService(o *Object) string {
	if name := o.Labels[labelServiceName]; name != "" {
		return o.Namespace + "/" + name
	}
	return ""
}
