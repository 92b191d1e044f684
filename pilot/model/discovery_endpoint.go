package model

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// deriveEndpoints recomputes the endpoints of the marked services.
func (d *discovery) deriveEndpoints() {
	if len(d.endpoints) == 0 {
		return
	}
	x := d.next.endpoints.Txn()
	for row := range d.endpoints {
		ns, host, _ := strings.Cut(row, "/")
		old, had := x.Get(row)
		list := d.endpointsOf(row)
		if list == nil {
			if had {
				x.Delete(row)
				d.touch(TableEndpoints, row)
				d.touch(TableAccounts, row)
			}
			continue
		}
		if had && reuseEqual(old.All, list) {
			continue
		}
		now := &Endpoints{Service: ServiceKey{host, ns}, All: list, ServiceAccounts: accountsOf(list)}
		x.Set(row, now)
		d.touch(TableEndpoints, row)
		if !had || !slices.Equal(old.ServiceAccounts, now.ServiceAccounts) {
			d.touch(TableAccounts, row)
		}
	}
	d.next.endpoints = x.Commit()
}

// reuseEqual puts the old object in place of each equal new one, so that pointers tell what changed, and reports
// whether the lists are the same.
func reuseEqual(old, now []*Endpoint) bool {
	same := len(old) == len(now)
	for i := range now {
		switch {
		case i < len(old) && equalEndpoint(old[i], now[i]):
			now[i] = old[i]
		default:
			same = false
		}
	}
	return same
}

func equalEndpoint(a, b *Endpoint) bool {
	return slices.Equal(a.Addresses, b.Addresses) && maps.Equal(a.Labels, b.Labels) &&
		a.PortName == b.PortName && a.ServicePort == b.ServicePort && a.Port == b.Port && a.ServiceAccount == b.ServiceAccount &&
		a.TLSMode == b.TLSMode && a.Locality == b.Locality && a.Network == b.Network && a.Cluster == b.Cluster && a.Weight == b.Weight &&
		a.Health == b.Health && a.Namespace == b.Namespace && a.WorkloadName == b.WorkloadName && a.Hostname == b.Hostname &&
		a.Subdomain == b.Subdomain && a.Node == b.Node && a.CanonicalName == b.CanonicalName &&
		a.CanonicalRevision == b.CanonicalRevision && a.Source == b.Source
}

func accountsOf(list []*Endpoint) []string {
	set := map[string]struct{}{}
	for _, e := range list {
		if e.ServiceAccount != "" {
			set[e.ServiceAccount] = struct{}{}
		}
	}
	return sortedKeys(set)
}

// endpointsOf returns the endpoints of a service row; nil if there is no such service.
func (d *discovery) endpointsOf(row string) []*Endpoint {
	s, ok := d.next.services.Get(row)
	if !ok {
		return nil
	}
	list := []*Endpoint{}
	if s.Registry == Kubernetes {
		for _, r := range sortedKeys(d.state.slices[row]) {
			if o, ok := d.next.objects[KindEndpointSlice].Get(r); ok {
				list = d.sliceEndpoints(list, s, o)
			}
		}
		return append(dedupe(list), d.selectedEntries(s)...)
	}
	for _, o := range d.entriesOf(row) {
		list = d.entryEndpoints(list, s, o)
	}
	if s.Resolution == DNSRoundRobin {
		list = firstOfEachPort(list)
	}
	return list
}

func dedupe(list []*Endpoint) []*Endpoint {
	type key struct{ address, port string }
	seen := make(map[key]struct{}, len(list))
	return slices.DeleteFunc(list, func(e *Endpoint) bool {
		k := key{e.Addresses[0], e.PortName}
		_, twice := seen[k]
		seen[k] = struct{}{}
		return twice
	})
}

func firstOfEachPort(list []*Endpoint) []*Endpoint {
	seen := map[string]struct{}{}
	return slices.DeleteFunc(list, func(e *Endpoint) bool {
		_, twice := seen[e.PortName]
		seen[e.PortName] = struct{}{}
		return twice
	})
}

// sliceHealth is the state that a slice's conditions mean; missing conditions count as true, as the API documents for
// ready, and as the field treats the others.
func sliceHealth(c discoveryv1.EndpointConditions, persistent bool) Health {
	is := func(b *bool) bool { return b == nil || *b }
	switch {
	case is(c.Ready):
		return Healthy
	case is(c.Serving) && is(c.Terminating) && persistent:
		return Draining
	case is(c.Terminating):
		return Terminating
	}
	return Unhealthy
}

func (d *discovery) sliceEndpoints(list []*Endpoint, s *Service, o *Object) []*Endpoint {
	slice, ok := o.Spec.(*discoveryv1.EndpointSlice)
	if !ok || slice.AddressType == discoveryv1.AddressTypeFQDN {
		return list
	}
	for i := range slice.Endpoints {
		e := &slice.Endpoints[i]
		health := sliceHealth(e.Conditions, s.SessionCookie != "" || s.SessionHeader != "")
		for _, address := range e.Addresses {
			w, known := d.sliceWorkload(o.Namespace, e, address)
			if !known {
				continue
			}
			addresses := []string{address}
			if d.settings.DualStack && w != nil && len(w.IPs) > 1 && slices.Contains(w.IPs, address) && len(s.ClusterVIPs[d.settings.ClusterID]) > 1 {
				if slice.AddressType == discoveryv1.AddressTypeIPv6 {
					continue // the IPv4 slice stands for all addresses of the pod
				}
				addresses = w.IPs
			}
			for _, p := range slice.Ports {
				list = append(list, d.sliceEndpoint(s, o, w, addresses, p, health))
			}
		}
	}
	return list
}

// sliceWorkload returns the workload behind an address; known is false if the slice names a pod that is not there.
func (d *discovery) sliceWorkload(namespace string, e *discoveryv1.Endpoint, address string) (w *Workload, known bool) {
	if ref := e.TargetRef; ref != nil && ref.Kind == "Pod" {
		w, ok := d.next.workloads.Get(d.settings.ClusterID + "/" + namespace + "/" + ref.Name)
		return w, ok
	}
	list, _ := d.next.workloadIPs.Get(address)
	for _, w := range list {
		if w.Namespace == namespace && w.Object.Kind == KindPod {
			return w, true
		}
	}
	return nil, true
}

func (d *discovery) sliceEndpoint(s *Service, o *Object, w *Workload, addresses []string, p discoveryv1.EndpointPort, health Health) *Endpoint {
	out := &Endpoint{
		Addresses: addresses, Health: health, Namespace: s.Namespace, Cluster: d.settings.ClusterID, TLSMode: "disabled", Source: o.ObjectKey,
	}
	if p.Name != nil {
		out.PortName = *p.Name
	}
	if p.Port != nil {
		out.Port = uint32(*p.Port) //nolint:gosec // the API allows 1 to 65535
	}
	if w == nil {
		out.Network = d.network("", addresses[0])
		out.Labels = d.topologyLabels(nil, "", "", out.Network)
		return out
	}
	d.describe(out, w)
	if pod, ok := d.next.objects[KindPod].Get(w.Object.Row()); ok && w.Object.Kind == KindPod {
		if spec, ok := pod.Spec.(*corev1.Pod); ok && spec.Spec.Subdomain != "" {
			out.Subdomain, out.Hostname = spec.Spec.Subdomain, spec.Spec.Hostname
			if out.Hostname == "" {
				out.Hostname = pod.Name
			}
		}
	}
	return out
}

// describe gives an endpoint what its workload says about itself.
func (d *discovery) describe(e *Endpoint, w *Workload) {
	e.Labels, e.Locality, e.Node, e.WorkloadName, e.Namespace, e.Cluster = w.Labels, w.Locality, w.Node, w.Name, w.Namespace, w.Cluster
	e.Network = w.Labels[labelNetwork]
	if w.ServiceAccount != "" {
		e.ServiceAccount = spiffeID(d.next.mesh.TrustDomain(), w.Namespace, w.ServiceAccount)
	}
	e.TLSMode = tlsMode(w.Labels, w.Object.Kind == KindWorkloadEntry && w.ServiceAccount != "")
	e.CanonicalName, e.CanonicalRevision = canonical(w.Labels, w.Name)
}

func tlsMode(labels map[string]string, account bool) string {
	if m := labels[labelTLSMode]; m != "" {
		return m
	}
	if account {
		return "istio"
	}
	return "disabled"
}

func canonical(labels map[string]string, workload string) (name, revision string) {
	name, revision = workload, "latest"
	for _, k := range []string{"app", "app.kubernetes.io/name", "service.istio.io/canonical-name"} {
		if v := labels[k]; v != "" {
			name = v
		}
	}
	for _, k := range []string{"version", "app.kubernetes.io/version", "service.istio.io/canonical-revision"} {
		if v := labels[k]; v != "" {
			revision = v
		}
	}
	return name, revision
}

// entryHealthy tells whether a WorkloadEntry may be used: always, unless it asks for health checks.
func entryHealthy(o *Object) bool {
	switch o.Annotations["proxy.istio.io/health-checks-enabled"] {
	case "1", "t", "T", "TRUE", "true", "True":
	default:
		return true
	}
	return conditionTrue(o.Status, "Healthy")
}

// selectedEntries are the WorkloadEntries that a Kubernetes Service selects, as endpoints.
func (d *discovery) selectedEntries(s *Service) []*Endpoint {
	if s.Resolution != ClientSideLB || len(s.Selector) == 0 {
		return nil
	}
	var out []*Endpoint
	for _, o := range namespaceObjects(d.next.objects[KindWorkloadEntry], s.Namespace) {
		w, ok := d.entryRow(o)
		spec, _ := o.Spec.(*networking.WorkloadEntry)
		if !ok || !w.Ready || len(entryLabels(o)) == 0 || !subset(s.Selector, w.Labels) {
			continue
		}
		if _, err := netip.ParseAddr(spec.GetAddress()); err != nil {
			continue
		}
		for _, p := range s.Ports {
			port, ok := entryTargetPort(p, spec.GetPorts())
			if !ok || p.Protocol == UDP {
				continue
			}
			e := &Endpoint{Addresses: []string{spec.GetAddress()}, PortName: p.Name, Port: port, Weight: spec.GetWeight(), Health: Healthy, Source: o.ObjectKey}
			d.describe(e, w)
			out = append(out, e)
		}
	}
	return out
}

func (d *discovery) entryRow(o *Object) (*Workload, bool) {
	return d.next.workloads.Get(d.settings.ClusterID + "/" + o.Namespace + "/entry:" + o.Name)
}

// entryTargetPort resolves a Service port on a WorkloadEntry.
func entryTargetPort(p *Port, ports map[string]uint32) (uint32, bool) {
	if p.TargetPortName != "" {
		n, ok := ports[p.TargetPortName]
		return n, ok
	}
	if n, ok := ports[p.Name]; ok {
		return n, true
	}
	return p.TargetPort, true
}

// entryEndpoints are the endpoints that one ServiceEntry gives the service.
func (d *discovery) entryEndpoints(list []*Endpoint, s *Service, o *Object) []*Endpoint {
	e, ok := o.Spec.(*networking.ServiceEntry)
	if !ok {
		return list
	}
	switch s.Resolution {
	case Passthrough, DynamicDNS:
		return list
	}
	if sel := e.GetWorkloadSelector(); sel != nil {
		return d.selectedWorkloads(list, s, o, e)
	}
	for i, we := range e.GetEndpoints() {
		list = d.inlineEndpoints(list, o, e, i, we)
	}
	if len(e.GetEndpoints()) == 0 && (s.Resolution == DNSLB || s.Resolution == DNSRoundRobin) {
		for _, p := range e.GetPorts() {
			list = append(list, &Endpoint{
				Addresses: []string{s.Host}, PortName: p.GetName(), ServicePort: p.GetNumber(), Port: entryPort(p, nil), Namespace: o.Namespace,
				Cluster: d.settings.ClusterID, TLSMode: "disabled", Source: o.ObjectKey,
			})
		}
	}
	return list
}

func entryPort(p *networking.ServicePort, ports map[string]uint32) uint32 {
	if n := ports[p.GetName()]; n > 0 {
		return n
	}
	if p.GetTargetPort() > 0 {
		return p.GetTargetPort()
	}
	return p.GetNumber()
}

func (d *discovery) inlineEndpoints(list []*Endpoint, o *Object, e *networking.ServiceEntry, i int, we *networking.WorkloadEntry) []*Endpoint {
	labels := maps.Clone(we.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	if we.GetNetwork() != "" {
		labels[labelNetwork] = we.GetNetwork()
	}
	locality := we.GetLocality()
	if locality == "" {
		locality = labelledLocality(labels)
	}
	w := &Workload{
		Object: ObjectKey{KindWorkloadEntry, o.Namespace, entryIndexName(o.Name, i)}, Cluster: d.settings.ClusterID, Namespace: o.Namespace,
		ServiceAccount: we.GetServiceAccount(), Locality: locality, Name: o.Name,
	}
	if n := labels[labelWorkloadName]; n != "" {
		w.Name = n
	}
	w.Labels = d.topologyLabels(labels, locality, "", d.network(labels[labelNetwork], we.GetAddress()))
	for _, p := range e.GetPorts() {
		port := entryPort(p, we.GetPorts())
		if strings.HasPrefix(we.GetAddress(), "unix://") {
			port = 0
		}
		ep := &Endpoint{
			Addresses: []string{we.GetAddress()}, PortName: p.GetName(), ServicePort: p.GetNumber(), Port: port, Weight: we.GetWeight(),
		}
		d.describe(ep, w)
		ep.Source = o.ObjectKey
		list = append(list, ep)
	}
	return list
}

// selectedWorkloads are the pods, then the WorkloadEntries, that a ServiceEntry's selector takes.
func (d *discovery) selectedWorkloads(list []*Endpoint, s *Service, o *Object, e *networking.ServiceEntry) []*Endpoint {
	want := e.GetWorkloadSelector().GetLabels()
	add := func(w *Workload, address string, ports map[string]uint32, weight uint32) {
		for _, p := range e.GetPorts() {
			ep := &Endpoint{Addresses: []string{address}, PortName: p.GetName(), ServicePort: p.GetNumber(), Port: entryPort(p, ports), Weight: weight}
			if strings.HasPrefix(address, "unix://") {
				ep.Port = 0
			}
			d.describe(ep, w)
			ep.Source = w.Object
			list = append(list, ep)
		}
	}
	for _, w := range d.next.workloads.Prefix(d.settings.ClusterID + "/" + o.Namespace + "/") {
		if w.Object.Kind == KindPod && w.Ready && subset(want, w.Labels) {
			add(w, w.IPs[0], nil, 0)
		}
	}
	for _, we := range d.next.objects[KindWorkloadEntry].Prefix(o.Namespace + "/") {
		w, ok := d.entryRow(we)
		spec, _ := we.Spec.(*networking.WorkloadEntry)
		if !ok || !w.Ready || !subset(want, w.Labels) {
			continue
		}
		_, err := netip.ParseAddr(spec.GetAddress())
		if dns := s.Resolution == DNSLB || s.Resolution == DNSRoundRobin; err != nil && !dns {
			continue
		}
		add(w, spec.GetAddress(), spec.GetPorts(), spec.GetWeight())
	}
	return list
}
