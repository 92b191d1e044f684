package model

import (
	"net/netip"
	"slices"
	"strconv"

	meta "istio.io/api/meta/v1alpha1"
)

// entryIndexName names the i-th inline endpoint of a ServiceEntry.
func entryIndexName(entry string, i int) string { return entry + "-" + strconv.Itoa(i) }

// conditionTrue tells whether a status holds a condition of the type that is true.
func conditionTrue(status any, kind string) bool {
	s, ok := status.(*meta.IstioStatus)
	if !ok {
		return false
	}
	for _, c := range s.GetConditions() {
		if c.GetType() == kind {
			return c.GetStatus() == "True"
		}
	}
	return false
}

// meshNetwork returns the network that the mesh networks give a cluster's address, or "".
func meshNetwork(m *Mesh, cluster, ip string) string {
	if m == nil {
		return ""
	}
	networks := m.Networks.GetNetworks()
	names := sortedKeys(networks)
	for _, n := range names {
		for _, e := range networks[n].GetEndpoints() {
			if e.GetFromRegistry() == cluster && cluster != "" {
				return n
			}
		}
	}
	addr, err := netip.ParseAddr(ip)
	if err != nil {
		return ""
	}
	best, bits := "", 129
	for _, n := range names {
		for _, e := range networks[n].GetEndpoints() {
			if p, err := netip.ParsePrefix(e.GetFromCidr()); err == nil && p.Contains(addr) && p.Bits() < bits {
				best, bits = n, p.Bits()
			}
		}
	}
	return best
}

// serviceAccounts returns the accounts behind a service, expanded to the trust domain aliases, sorted.
func (pc *PushContext) serviceAccounts(k ServiceKey) []string {
	set := map[string]struct{}{}
	if s, ok := pc.services.Get(k.String()); ok {
		for _, a := range s.SubjectAltNames {
			set[a] = struct{}{}
		}
	}
	if e, ok := pc.endpoints.Get(k.String()); ok {
		for _, a := range e.ServiceAccounts {
			set[a] = struct{}{}
		}
	}
	own := "spiffe://" + pc.mesh.TrustDomain() + "/"
	for _, a := range sortedKeys(set) {
		if len(a) <= len(own) || a[:len(own)] != own {
			continue
		}
		for _, td := range pc.mesh.Config.GetTrustDomainAliases() {
			set["spiffe://"+td+"/"+a[len(own):]] = struct{}{}
		}
	}
	if len(set) == 0 {
		return nil
	}
	return sortedKeys(set)
}

// TargetQuery says which workload's services are asked for.
type TargetQuery struct {
	Cluster, Namespace, ProxyName string
	IPs                           []string
	Labels                        map[string]string
	PodPorts                      map[string]uint32
}

// ServiceTargets returns the service ports that a workload serves, the oldest service first.
func (r *Reader) ServiceTargets(q TargetQuery) []ServiceTarget {
	var out []ServiceTarget
	services := r.NamespaceServices(q.Namespace)
	if q.Cluster == "" || q.Cluster == r.Settings().ClusterID {
		out = r.kubernetesTargets(q, services)
	}
	for _, s := range services {
		if s.Registry == External {
			out = append(out, r.entryTargets(q, s)...)
		}
	}
	slices.SortStableFunc(out, func(a, b ServiceTarget) int {
		if c := a.Service.Created.Compare(b.Service.Created); c != 0 {
			return c
		}
		switch {
		case a.Service.Host < b.Service.Host:
			return -1
		case a.Service.Host > b.Service.Host:
			return 1
		}
		return 0
	})
	return out
}

func (r *Reader) kubernetesTargets(q TargetQuery, services []*Service) []ServiceTarget {
	labels, named := q.Labels, q.PodPorts
	entry := r.entryByIP(q)
	pod := r.Workload(r.Settings().ClusterID, q.Namespace, q.ProxyName)
	switch {
	case entry != nil:
		labels, named = entry.Labels, entry.NamedPorts
	case pod != nil:
		labels, named = pod.Labels, pod.NamedPorts
	}
	var out []ServiceTarget
	for _, s := range services {
		if s.Registry != Kubernetes || len(s.Selector) == 0 || !subset(s.Selector, labels) || entry != nil && s.Resolution != ClientSideLB {
			continue
		}
		out = append(out, selectedTargets(s, named, entry != nil)...)
	}
	if len(out) > 0 {
		return out
	}
	for _, s := range services {
		if s.Registry == Kubernetes && len(s.Selector) == 0 && s.Resolution != Alias {
			out = append(out, r.entryTargets(q, s)...)
		}
	}
	return out
}

func (r *Reader) entryByIP(q TargetQuery) *Workload {
	if len(q.IPs) == 0 {
		return nil
	}
	var best *Workload
	for _, w := range r.WorkloadsByIP(q.IPs[0]) {
		if w.Object.Kind != KindWorkloadEntry {
			continue
		}
		if w.Namespace == q.Namespace && (best == nil || w.Object.Name == q.ProxyName) {
			best = w
		}
	}
	return best
}

// selectedTargets resolves the ports of a service on a workload it selects. Of two ports that lead to one target port
// with one protocol, the first in the service counts.
func selectedTargets(s *Service, named map[string]uint32, entry bool) []ServiceTarget {
	type target struct {
		port     uint32
		protocol Protocol
	}
	seen := map[target]struct{}{}
	var out []ServiceTarget
	for _, p := range s.Ports {
		if p.Protocol == UDP {
			continue
		}
		port := p.TargetPort
		if entry {
			n, ok := entryTargetPort(p, named)
			if !ok {
				continue
			}
			port = n
		} else if p.TargetPortName != "" {
			port = named[p.TargetPortName+"/TCP"]
			if port == 0 {
				continue
			}
		}
		t := target{port, p.Protocol}
		if _, twice := seen[t]; twice {
			continue
		}
		seen[t] = struct{}{}
		out = append(out, ServiceTarget{Service: s, Port: p, TargetPort: port})
	}
	return out
}

// entryTargets are the ports of a service whose endpoints have one of the workload's addresses.
func (r *Reader) entryTargets(q TargetQuery, s *Service) []ServiceTarget {
	var out []ServiceTarget
	for _, e := range r.Endpoints(s.ServiceKey).All {
		if !slices.Contains(q.IPs, e.Addresses[0]) {
			continue
		}
		for _, p := range s.Ports {
			if p.Name == e.PortName && p.Protocol != UDP {
				out = append(out, ServiceTarget{Service: s, Port: p, TargetPort: e.Port})
			}
		}
	}
	return out
}
