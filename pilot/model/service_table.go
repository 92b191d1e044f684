package model

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/mizzen-mesh/mizzen/pkg/store"
)

// deriveServices brings the candidates of every dirty service up to date, and the tables with them.
func (w *discoveryWork) deriveServices() {
	for row, k := range w.dirtyServices {
		w.deriveService(row, k)
	}
	if !w.public.empty() {
		w.next.publicSvcs = w.public.apply(w.prev.publicSvcs, creationOrder)
		w.touch(TableVisible, "*")
	}
	exported := w.next.exportedSvcs.Txn()
	for ns, e := range w.exported {
		if e.empty() {
			continue
		}
		old, _ := exported.Get(ns)
		setRows(exported, ns, e.apply(old, creationOrder))
		w.touch(TableVisible, ns)
	}
	w.next.exportedSvcs = exported.Commit()
	w.next.services, w.next.hosts = w.services.Commit(), w.hosts.Commit()
}

// creationOrder puts the services of all registries by age, Kubernetes' first among equals. It is total.
func creationOrder(a, b *Service) int {
	if c := OlderService(a, b); c != 0 {
		return c
	}
	if a.Registry != b.Registry {
		if a.Registry == Kubernetes {
			return -1
		}
		return 1
	}
	return cmp.Or(strings.Compare(a.Host, b.Host), strings.Compare(a.Object.Name, b.Object.Name))
}

// convert returns the services of that key, the one in force first: a Kubernetes Service before all ServiceEntries,
// and those by age.
func (w *discoveryWork) convert(row string, k ServiceKey) []*Service {
	var out []*Service
	if name, ok := kubernetesName(k.Host, k.Namespace, w.next.settings.Domain); ok {
		if o, ok := w.next.objects[KindService].Get(k.Namespace + "/" + name); ok {
			if s := w.kubernetesService(o); s != nil {
				out = append(out, s)
			}
		}
	}
	for _, o := range w.entriesOf(row) {
		if s := w.entryService(o, k.Host); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// entriesOf returns the ServiceEntries of "namespace/host", oldest first.
func (w *discoveryWork) entriesOf(row string) []*Object {
	rows := w.hostEntries[row]
	if len(rows) == 0 {
		return nil
	}
	out := make([]*Object, 0, len(rows))
	for r := range rows {
		if o, ok := w.next.objects[KindServiceEntry].Get(r); ok {
			out = append(out, o)
		}
	}
	sortOldest(out)
	return out
}

func (w *discoveryWork) deriveService(row string, k ServiceKey) {
	before, after := w.candidates[row], w.convert(row, k)
	for i, s := range after {
		for _, old := range before {
			if old.Object == s.Object && reflect.DeepEqual(old, s) {
				after[i] = old
			}
		}
	}
	if slices.Equal(before, after) {
		return
	}
	w.dirtyEndpoints[row] = k
	if len(after) == 0 {
		delete(w.candidates, row)
	} else {
		w.candidates[row] = after
	}
	old, _ := w.services.Get(row)
	if now := united(after); old == nil || now == nil || !reflect.DeepEqual(old, now) {
		w.replaceService(row, k, old, now)
	}
}

// united returns the service that counts, with the ports of the other ServiceEntries of the same host and namespace that
// are like it in all that a port cannot have of its own. Of two ports with one number, the older's counts.
func united(list []*Service) *Service {
	switch {
	case len(list) == 0:
		return nil
	case len(list) == 1 || list[0].Registry == Kubernetes:
		return list[0]
	}
	out := *list[0]
	out.Ports = slices.Clone(out.Ports)
	for _, s := range list[1:] {
		if s.Resolution != out.Resolution || !maps.Equal(s.Labels, out.Labels) ||
			(s.Selector == nil) != (out.Selector == nil) || !maps.Equal(s.Selector, out.Selector) ||
			!reflect.DeepEqual(s.ExportTo, out.ExportTo) {
			continue
		}
		for _, p := range s.Ports {
			if out.PortByNumber(p.Number) == nil {
				out.Ports = append(out.Ports, p)
			}
		}
	}
	return &out
}

func (w *discoveryWork) replaceService(row string, k ServiceKey, old, now *Service) {
	w.touch(TableService, row)
	w.touch(TableNamespaceService, k.Namespace)
	if now == nil {
		w.services.Delete(row)
	} else {
		w.services.Set(row, now)
		w.visit(now, func(e *listEdit[*Service]) { e.added = append(e.added, now) })
	}
	if old != nil {
		w.visit(old, func(e *listEdit[*Service]) { e.remove(old) })
	}
	if (old == nil) != (now == nil) {
		w.touch(TableHost, k.Host)
		w.setHostMember(k, now != nil)
	}
	w.noteAliases(row, k, old, now)
}

func (w *discoveryWork) setHostMember(k ServiceKey, member bool) {
	old, _ := w.hosts.Get(k.Host)
	list := slices.Clone(old)
	i, has := slices.BinarySearch(list, k.Namespace)
	switch {
	case member && !has:
		list = slices.Insert(list, i, k.Namespace)
	case !member && has:
		list = slices.Delete(list, i, i+1)
	}
	setRows(w.hosts, k.Host, list)
}

// visit calls f with the edit of each list that s belongs to.
func (w *discoveryWork) visit(s *Service, f func(*listEdit[*Service])) {
	if s.ExportTo.Public {
		f(&w.public)
		return
	}
	for ns := range s.ExportTo.Namespaces {
		if w.exported[ns] == nil {
			w.exported[ns] = &listEdit[*Service]{}
		}
		f(w.exported[ns])
	}
}

// servicesOfHost yields the services of a host in a state of the tables.
func servicesOfHost(hosts store.Table[[]string], services store.Table[*Service], host string) []*Service {
	namespaces, _ := hosts.Get(host)
	out := make([]*Service, 0, len(namespaces))
	for _, ns := range namespaces {
		if s, ok := services.Get(ns + "/" + host); ok {
			out = append(out, s)
		}
	}
	return out
}
