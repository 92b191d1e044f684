package model

import (
	"maps"
	"slices"
	"strings"
)

// deriveEndpoints builds the dirty services' endpoints anew, and keeps every one that is as it was.
func (w *discoveryWork) deriveEndpoints() {
	dirtyTargets := rowSet{}
	for row, k := range w.dirtyEndpoints {
		old, _ := w.endpoints.Get(row)
		list := keepEqual(endpointsOf(old), w.endpointList(row, k))
		if !slices.Equal(endpointsOf(old), list) {
			w.touch(TableEndpoints, row)
			if len(list) == 0 {
				w.endpoints.Delete(row)
			} else {
				w.endpoints.Set(row, &Endpoints{Service: k, All: list, ServiceAccounts: accountsOf(old, list)})
			}
		}
		w.moveTargets(row, list, dirtyTargets)
		w.noteAccounts(row, old)
	}
	w.deriveTargets(dirtyTargets)
}

func endpointsOf(e *Endpoints) []*Endpoint {
	if e == nil {
		return nil
	}
	return e.All
}

// endpointList builds the endpoints of a service: slices in order of their names, WorkloadEntries the Service selects,
// then what the ServiceEntries bring, oldest first. Without a service there are none.
func (w *discoveryWork) endpointList(row string, k ServiceKey) []*Endpoint {
	list := w.candidates[row]
	if len(list) == 0 {
		return nil
	}
	var out []*Endpoint
	for _, s := range list {
		if s.Registry == Kubernetes {
			if s.Resolution != Alias {
				out = w.kubernetesEndpoints(out, s)
			}
			continue
		}
		if o, ok := w.next.objects[KindServiceEntry].Get(s.Object.Row()); ok {
			out = w.entryEndpoints(out, s, o)
		}
	}
	if list[0].Resolution == DNSRoundRobin {
		out = firstPerPort(out)
	}
	return out
}

// firstPerPort keeps one endpoint a service port: LOGICAL_DNS takes no more.
func firstPerPort(list []*Endpoint) []*Endpoint {
	seen := map[uint32]struct{}{}
	return slices.DeleteFunc(list, func(e *Endpoint) bool {
		_, dup := seen[e.ServicePort]
		seen[e.ServicePort] = struct{}{}
		return dup
	})
}

type endpointID struct {
	address, portName string
	servicePort, port uint32
}

func (e *Endpoint) id() endpointID {
	x := endpointID{portName: e.PortName, servicePort: e.ServicePort, port: e.Port}
	if len(e.Addresses) > 0 {
		x.address = e.Addresses[0]
	}
	return x
}

// keepEqual replaces elements of list by those of old that are equal, so that unchanged endpoints stay the same in
// memory. It returns old itself if nothing differs.
func keepEqual(old, list []*Endpoint) []*Endpoint {
	same := len(old) == len(list)
	var byID map[endpointID]*Endpoint
	for i, e := range list {
		if i < len(old) && sameEndpoint(old[i], e) {
			list[i] = old[i]
			continue
		}
		same = false
		if len(old) == 0 {
			continue
		}
		if byID == nil {
			byID = make(map[endpointID]*Endpoint, len(old))
			for _, o := range old {
				byID[o.id()] = o
			}
		}
		if o := byID[e.id()]; o != nil && sameEndpoint(o, e) {
			list[i] = o
		}
	}
	if same {
		return old
	}
	return list
}

func sameEndpoint(a, b *Endpoint) bool {
	return a.Port == b.Port && a.Health == b.Health && a.PortName == b.PortName && a.ServicePort == b.ServicePort &&
		a.Weight == b.Weight && a.ServiceAccount == b.ServiceAccount && a.TLSMode == b.TLSMode &&
		a.Locality == b.Locality && a.Network == b.Network && a.Cluster == b.Cluster && a.Namespace == b.Namespace &&
		a.WorkloadName == b.WorkloadName && a.Hostname == b.Hostname && a.Subdomain == b.Subdomain &&
		a.Node == b.Node && a.HBONE == b.HBONE && a.CanonicalName == b.CanonicalName && a.CanonicalRevision == b.CanonicalRevision &&
		a.Source == b.Source && slices.Equal(a.Addresses, b.Addresses) && maps.Equal(a.Labels, b.Labels)
}

// accountsOf returns the sorted accounts of a list, the same slice as before if they are the same.
func accountsOf(old *Endpoints, list []*Endpoint) []string {
	var out []string
	last := ""
	for _, e := range list {
		if e.ServiceAccount == "" || e.ServiceAccount == last {
			continue
		}
		last = e.ServiceAccount
		if i, has := slices.BinarySearch(out, last); !has {
			out = slices.Insert(out, i, last)
		}
	}
	if old != nil && slices.Equal(old.ServiceAccounts, out) {
		return old.ServiceAccounts
	}
	return out
}

// noteAccounts touches the accounts of a service if they are not what they were.
func (w *discoveryWork) noteAccounts(row string, old *Endpoints) {
	now, _ := w.endpoints.Get(row)
	service, _ := w.next.services.Get(row)
	before, _ := w.prev.services.Get(row)
	if !w.mesh && service == before && slices.Equal(endpointAccounts(old), endpointAccounts(now)) {
		return
	}
	was := expandAccounts(endpointAccounts(old), before, w.prev.mesh)
	is := expandAccounts(endpointAccounts(now), service, w.next.mesh)
	if !slices.Equal(was, is) {
		w.touch(TableAccounts, row)
	}
}

func endpointAccounts(e *Endpoints) []string {
	if e == nil {
		return nil
	}
	return e.ServiceAccounts
}

func (pc *PushContext) serviceAccounts(k ServiceKey) []string {
	row := k.String()
	e, _ := pc.endpoints.Get(row)
	s, _ := pc.services.Get(row)
	return expandAccounts(endpointAccounts(e), s, pc.mesh)
}

// expandAccounts returns the union of the endpoints' accounts and those on the service's object, each SPIFFE id also
// under every trust domain alias, sorted.
func expandAccounts(accounts []string, s *Service, mesh *Mesh) []string {
	var out []string
	add := func(id string) {
		out = append(out, id)
		rest, ok := strings.CutPrefix(id, "spiffe://")
		if !ok {
			return
		}
		if _, path, ok := strings.Cut(rest, "/"); ok {
			for _, domain := range mesh.Config.GetTrustDomainAliases() {
				out = append(out, "spiffe://"+domain+"/"+path)
			}
		}
	}
	for _, id := range accounts {
		add(id)
	}
	if s != nil {
		for _, id := range s.SubjectAltNames {
			add(id)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
