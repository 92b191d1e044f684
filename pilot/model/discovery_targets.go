package model

import (
	"cmp"
	"slices"
	"strings"
)

// TargetQuery says which workload's services are asked for.
type TargetQuery struct {
	// Cluster and Namespace are the proxy's; ProxyName is the pod's or WorkloadEntry's name.
	Cluster, Namespace, ProxyName string
	// IPs are the proxy's addresses, the main one first.
	IPs []string
	// Labels and PodPorts ("name/protocol") are what the proxy says itself; they count as long as its pod is not known.
	Labels   map[string]string
	PodPorts map[string]uint32
}

// ServiceTargets returns the service ports that a workload serves, the oldest service first. Of several ports of one
// service with the same target port and protocol only the first is returned.
func (r *Reader) ServiceTargets(q TargetQuery) []ServiceTarget {
	t := targetList{r: r, q: q}
	if q.Cluster == "" || q.Cluster == r.pc.settings.ClusterID {
		t.kubernetes()
	}
	t.byAddress(External)
	slices.SortStableFunc(t.out, func(a, b ServiceTarget) int {
		if c := a.Service.Created.Compare(b.Service.Created); c != 0 {
			return c
		}
		return cmp.Or(strings.Compare(a.Service.Host, b.Service.Host),
			strings.Compare(a.Service.Namespace, b.Service.Namespace))
	})
	return t.out
}

type targetID struct {
	service  *Service
	port     uint32
	protocol Protocol
}

// targetList gathers the targets of one workload. UDP ports are among them: proxies of the field are given a TCP chain and
// a cluster for those too.
type targetList struct {
	r    *Reader
	q    TargetQuery
	out  []ServiceTarget
	seen map[targetID]struct{}
}

func (t *targetList) add(s *Service, p *Port, target uint32) {
	id := targetID{s, target, p.Protocol}
	if _, dup := t.seen[id]; dup {
		return
	}
	if t.seen == nil {
		t.seen = map[targetID]struct{}{}
	}
	t.seen[id] = struct{}{}
	t.out = append(t.out, ServiceTarget{Service: s, Port: p, TargetPort: target})
}

// kubernetes adds the Kubernetes services: those that select the WorkloadEntry of the proxy's address, else those of
// its pod, else those that its own labels suit.
func (t *targetList) kubernetes() {
	if x := t.entry(); x != nil {
		t.selecting(x.Namespace, x.Labels, func(s *Service, p *Port) (uint32, bool) {
			if s.Resolution != ClientSideLB {
				return 0, false
			}
			return entryTargetPort(x, p)
		})
		return
	}
	pod := t.r.Workload(t.q.Cluster, t.q.Namespace, t.q.ProxyName)
	if pod == nil || pod.Object.Kind != KindPod {
		if len(t.q.Labels) > 0 {
			t.selecting(t.q.Namespace, t.q.Labels, portResolver(t.q.PodPorts))
		}
		return
	}
	if !t.selecting(t.q.Namespace, pod.Labels, portResolver(pod.NamedPorts)) {
		t.byAddress(Kubernetes)
	}
}

// entry returns the WorkloadEntry of the proxy's first address: its own by name, else one of its namespace, else the
// first.
func (t *targetList) entry() *Workload {
	if len(t.q.IPs) == 0 {
		return nil
	}
	var best *Workload
	rank := 0
	for _, x := range t.r.WorkloadsByIP(t.q.IPs[0]) {
		if x.Object.Kind != KindWorkloadEntry || !x.Ready {
			continue
		}
		n := 1
		if x.Namespace == t.q.Namespace {
			n++
			if x.Object.Name == t.q.ProxyName {
				n++
			}
		}
		if n > rank {
			best, rank = x, n
		}
	}
	return best
}

// portResolver resolves target ports of pods: by number, or by name among the ports given.
func portResolver(named map[string]uint32) func(*Service, *Port) (uint32, bool) {
	return func(_ *Service, p *Port) (uint32, bool) {
		if p.TargetPortName != "" {
			n, ok := named[namedPort(p.TargetPortName, "TCP")]
			return n, ok
		}
		if p.TargetPort != 0 {
			return p.TargetPort, true
		}
		return p.Number, true
	}
}

// selecting adds the Kubernetes services of a namespace whose selector suits labels, and tells whether there are any.
func (t *targetList) selecting(namespace string, labels map[string]string, port func(*Service, *Port) (uint32, bool)) bool {
	found := false
	for _, s := range t.r.NamespaceServices(namespace) {
		if s.Registry != Kubernetes || s.Selector == nil || s.Resolution == Alias || !LabelsMatch(s.Selector, labels) {
			continue
		}
		found = true
		for _, p := range s.Ports {
			if n, ok := port(s, p); ok {
				t.add(s, p, n)
			}
		}
	}
	return found
}

// byAddress adds the services of the proxy's namespace that have an endpoint at one of its addresses: ServiceEntries,
// or Kubernetes services without a selector.
func (t *targetList) byAddress(registry Registry) {
	for _, ip := range t.q.IPs {
		row := t.q.Namespace + "/" + ip
		t.r.read(TableTargets, row)
		keys, _ := t.r.pc.targets.Get(row)
		for _, k := range keys {
			for _, e := range t.r.Endpoints(k).All {
				if !slices.Contains(e.Addresses, ip) || (e.ServicePort == 0) != (registry == Kubernetes) {
					continue
				}
				if s, p := t.r.portOf(k, registry, e); s != nil {
					t.add(s, p, e.Port)
				}
			}
		}
	}
}

// portOf returns the service and port that an endpoint of k belongs to, if the service is of that registry.
func (r *Reader) portOf(k ServiceKey, registry Registry, e *Endpoint) (*Service, *Port) {
	s := r.Service(k)
	if s == nil || s.Registry != registry {
		return nil, nil
	}
	for _, p := range s.Ports {
		if p.Name == e.PortName && (e.ServicePort == 0 || e.ServicePort == p.Number) {
			return s, p
		}
	}
	return nil, nil
}

// moveTargets keeps the addresses under which the endpoints of a service make it the target of workloads: those of
// ServiceEntries, and all of a Kubernetes service without a selector.
func (w *discoveryWork) moveTargets(row string, list []*Endpoint, dirty rowSet) {
	old := w.targetAddrs[row]
	var now []string
	if c := w.candidates[row]; len(c) > 0 && (c[0].Registry == External || c[0].Selector == nil) {
		for _, e := range list {
			for _, a := range e.Addresses {
				if isIP(a) {
					now = append(now, c[0].Namespace+"/"+a)
				}
			}
		}
	}
	slices.Sort(now)
	now = slices.Compact(now)
	if slices.Equal(old, now) {
		return
	}
	reindex(w.targetsAt, row, old, now)
	for _, names := range [][]string{old, now} {
		for _, name := range names {
			dirty.add(name)
		}
	}
	if len(now) == 0 {
		delete(w.targetAddrs, row)
	} else {
		w.targetAddrs[row] = now
	}
}

func (w *discoveryWork) deriveTargets(dirty rowSet) {
	targets := w.next.targets.Txn()
	for name := range dirty {
		list := make([]ServiceKey, 0, len(w.targetsAt[name]))
		for row := range w.targetsAt[name] {
			ns, host, _ := strings.Cut(row, "/")
			list = append(list, ServiceKey{Host: host, Namespace: ns})
		}
		slices.SortFunc(list, func(a, b ServiceKey) int { return strings.Compare(a.String(), b.String()) })
		if old, _ := targets.Get(name); slices.Equal(old, list) {
			continue
		}
		setRows(targets, name, list)
		w.touch(TableTargets, name)
	}
	w.next.targets = targets.Commit()
}
