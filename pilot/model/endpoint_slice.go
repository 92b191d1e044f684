package model

import (
	"net/netip"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
)

// kubernetesEndpoints appends the endpoints of a Kubernetes service: those of its slices, then the WorkloadEntries that
// its selector matches.
func (w *discoveryWork) kubernetesEndpoints(out []*Endpoint, s *Service) []*Endpoint {
	slicesOf := w.serviceSlices[s.Object.Row()]
	rows := make([]string, 0, len(slicesOf))
	for row := range slicesOf {
		rows = append(rows, row)
	}
	slices.Sort(rows)
	b := sliceBuilder{w: w, service: s, out: out, seen: map[endpointID]struct{}{}}
	for _, row := range rows {
		if o, ok := w.next.objects[KindEndpointSlice].Get(row); ok {
			b.slice(o)
		}
	}
	return w.selectedByService(b.out, s)
}

// sliceBuilder turns the slices of one service into endpoints.
type sliceBuilder struct {
	w       *discoveryWork
	service *Service
	out     []*Endpoint
	seen    map[endpointID]struct{} // the same address and port may stand in several slices
}

func (b *sliceBuilder) slice(o *Object) {
	src, ok := o.Spec.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	for i := range src.Endpoints {
		e := &src.Endpoints[i]
		health := sliceHealth(&e.Conditions, b.service)
		for _, address := range e.Addresses {
			pod, known := b.pod(e, o.Namespace, address)
			if !known {
				continue // identity and TLS mode are unknown until the pod is
			}
			addresses := []string{address}
			if b.dualStack(pod, address) {
				if src.AddressType == discoveryv1.AddressTypeIPv6 && hasIPv4(pod) {
					continue
				}
				addresses = pod.IPs
			}
			for j := range src.Ports {
				b.add(o, &src.Ports[j], addresses, pod, health)
			}
		}
	}
}

// pod returns the pod behind an endpoint. It is not known if the endpoint refers to one that does not exist; an endpoint
// that refers to none may do without.
func (b *sliceBuilder) pod(e *discoveryv1.Endpoint, namespace, address string) (pod *Workload, known bool) {
	if row, ok := podReference(e, namespace); ok {
		k := keyOfRow(KindPod, row)
		pod = b.w.pods.get(k.Namespace, k.Name)
		return pod, pod != nil
	}
	list, _ := b.w.next.workloadIPs.Get(address)
	for _, x := range list {
		if x.Object.Kind == KindPod && x.Namespace == namespace && x.Ready {
			return x, true
		}
	}
	return nil, true
}

// dualStack tells whether one endpoint stands for all addresses of the pod.
func (b *sliceBuilder) dualStack(pod *Workload, address string) bool {
	return b.w.next.settings.DualStack && pod != nil && len(pod.IPs) > 1 && slices.Contains(pod.IPs, address) &&
		len(b.service.ClusterVIPs[b.w.next.settings.ClusterID]) > 1
}

func hasIPv4(x *Workload) bool {
	return slices.ContainsFunc(x.IPs, func(ip string) bool {
		a, err := netip.ParseAddr(ip)
		return err == nil && a.Is4()
	})
}

func (b *sliceBuilder) add(o *Object, port *discoveryv1.EndpointPort, addresses []string, pod *Workload, health Health) {
	e := &Endpoint{Addresses: addresses, Health: health, Source: o.ObjectKey}
	if port.Name != nil {
		e.PortName = *port.Name
	}
	if port.Port != nil {
		e.Port = uint32(*port.Port) //nolint:gosec // the API server bounds it
	}
	id := endpointID{address: addresses[0], portName: e.PortName}
	if _, dup := b.seen[id]; dup {
		return
	}
	b.seen[id] = struct{}{}
	if pod == nil {
		b.w.placeUnknown(e)
	} else {
		b.w.placeWorkload(e, pod)
	}
	b.out = append(b.out, e)
}

// sliceHealth returns an endpoint's state. A condition that is not given counts as true.
func sliceHealth(c *discoveryv1.EndpointConditions, s *Service) Health {
	isTrue := func(b *bool) bool { return b == nil || *b }
	switch {
	case isTrue(c.Ready):
		return Healthy
	case isTrue(c.Serving) && isTrue(c.Terminating) && (s.SessionCookie != "" || s.SessionHeader != ""):
		return Draining
	case isTrue(c.Terminating):
		return Terminating
	default:
		return Unhealthy
	}
}

// placeWorkload fills in what an endpoint has from its pod or WorkloadEntry.
func (w *discoveryWork) placeWorkload(e *Endpoint, x *Workload) {
	e.Labels, e.TLSMode, e.Locality, e.Network, e.Cluster = x.Labels, x.tlsMode, x.Locality, x.network, x.Cluster
	e.Namespace, e.WorkloadName, e.Node = x.Namespace, x.Name, x.Node
	e.Hostname, e.Subdomain = x.hostname, x.subdomain
	e.HBONE = x.hbone || strings.Contains(x.Labels[labelTunnel], "http")
	e.CanonicalName, e.CanonicalRevision, e.Weight = x.canonicalName, x.canonicalRevision, x.weight
	if x.ServiceAccount != "" {
		e.ServiceAccount = w.spiffeID(x.Namespace, x.ServiceAccount)
	}
}

// placeUnknown fills in an endpoint that stands for no workload we know.
func (w *discoveryWork) placeUnknown(e *Endpoint) {
	e.Network = w.network(nil, e.Addresses[0])
	e.Labels = w.augment(nil, "", "", e.Network)
	e.TLSMode, e.Cluster = tlsModeDisabled, w.next.settings.ClusterID
}
