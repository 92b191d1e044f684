package model

import (
	"slices"
	"strconv"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// membersOf returns the workloads that a Service or ServiceEntry selects: pods before entries, by name.
func (w *discoveryWork) membersOf(owner ObjectKey) []*Workload {
	s := w.selections[owner]
	if s == nil || len(s.members) == 0 {
		return nil
	}
	out := make([]*Workload, 0, len(s.members))
	for _, x := range s.members {
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b *Workload) int {
		if c := strings.Compare(string(a.Object.Kind), string(b.Object.Kind)); c != 0 {
			return c
		}
		return strings.Compare(a.Object.Name, b.Object.Name)
	})
	return out
}

// selectedByService appends the WorkloadEntries that a Kubernetes service selects.
func (w *discoveryWork) selectedByService(out []*Endpoint, s *Service) []*Endpoint {
	if s.Resolution != ClientSideLB {
		return out
	}
	for _, x := range w.membersOf(s.Object) {
		if !isIP(x.address()) {
			continue
		}
		for _, p := range s.Ports {
			port, ok := entryTargetPort(x, p)
			if !ok || p.Protocol == UDP {
				continue
			}
			e := &Endpoint{Addresses: x.IPs, PortName: p.Name, Port: port, Source: x.Object}
			w.placeWorkload(e, x)
			out = append(out, e)
		}
	}
	return out
}

// entryTargetPort returns the port of a WorkloadEntry behind a Kubernetes service port: a named target port must be
// among the entry's ports, a number gives way to the entry's port of the service port's name.
func entryTargetPort(x *Workload, p *Port) (uint32, bool) {
	if p.TargetPortName != "" {
		n, ok := x.NamedPorts[namedPort(p.TargetPortName, "TCP")]
		return n, ok
	}
	if n, ok := x.NamedPorts[namedPort(p.Name, "TCP")]; ok {
		return n, true
	}
	if p.TargetPort != 0 {
		return p.TargetPort, true
	}
	return p.Number, true
}

// entryEndpoints appends the endpoints of one host of a ServiceEntry.
func (w *discoveryWork) entryEndpoints(out []*Endpoint, s *Service, o *Object) []*Endpoint {
	spec, ok := o.Spec.(*networking.ServiceEntry)
	if !ok || s.Resolution == Passthrough || s.Resolution == DynamicDNS {
		return out
	}
	dns := s.Resolution == DNSLB || s.Resolution == DNSRoundRobin
	switch {
	case len(spec.GetEndpoints()) > 0:
		for i, e := range spec.GetEndpoints() {
			x := w.placed(e, e.GetLabels())
			x.Object, x.Namespace, x.Name = o.ObjectKey, o.Namespace, o.Name+"-"+strconv.Itoa(i)
			x.canonicalName, x.canonicalRevision = canonical(e.GetLabels(), x.Name)
			out = w.appendEntry(out, s, x)
		}
	case s.Selector != nil:
		for _, x := range w.membersOf(o.ObjectKey) {
			if dns || isIP(x.address()) || x.address() == "" {
				out = w.appendEntry(out, s, x)
			}
		}
	case dns:
		for _, p := range s.Ports {
			e := &Endpoint{
				Addresses: []string{s.Host}, PortName: p.Name, ServicePort: p.Number, Port: p.Number,
				TLSMode: tlsModeDisabled, Cluster: w.next.settings.ClusterID, Source: o.ObjectKey,
				Namespace: o.Namespace, WorkloadName: o.Name,
			}
			if p.TargetPort > 0 {
				e.Port = p.TargetPort
			}
			out = append(out, e)
		}
	}
	return out
}

// appendEntry appends one endpoint a port for a workload of a ServiceEntry. Pods come here as healthy, entries without
// a state of their own.
func (w *discoveryWork) appendEntry(out []*Endpoint, s *Service, x *Workload) []*Endpoint {
	for _, p := range s.Ports {
		e := &Endpoint{PortName: p.Name, ServicePort: p.Number, Port: entryPort(p, x), Source: x.Object}
		if len(x.IPs) > 0 {
			e.Addresses = x.IPs[:1]
		}
		if x.Object.Kind == KindPod {
			e.Health = Healthy
			if w.next.settings.DualStack {
				e.Addresses = x.IPs
			}
		}
		w.placeWorkload(e, x)
		out = append(out, e)
	}
	return out
}

// entryPort returns the port of a ServiceEntry's endpoint: none on a unix socket, else the workload's own of that name,
// the target port, the service port.
func entryPort(p *Port, x *Workload) uint32 {
	if isUnix(x.address()) {
		return 0
	}
	if n := x.NamedPorts[namedPort(p.Name, "TCP")]; n > 0 {
		return n
	}
	if p.TargetPort > 0 {
		return p.TargetPort
	}
	return p.Number
}
