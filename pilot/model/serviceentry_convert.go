package model

import (
	"net/netip"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

const (
	labelAutoAllocate         = "networking.istio.io/enable-autoallocate-ip"
	annotationConnectStrategy = "istio.io/connect-strategy"
	connectStrategyRace       = "RACE_FIRST_TCP_CONNECT"
)

// entryHosts returns the hosts of a ServiceEntry, each once, and nothing for any other object.
func entryHosts(o *Object) []string {
	if o == nil {
		return nil
	}
	spec, ok := o.Spec.(*networking.ServiceEntry)
	if !ok {
		return nil
	}
	seen := make(map[string]struct{}, len(spec.GetHosts()))
	out := make([]string, 0, len(spec.GetHosts()))
	for _, h := range spec.GetHosts() {
		if _, dup := seen[h]; !dup && h != "" {
			seen[h] = struct{}{}
			out = append(out, h)
		}
	}
	return out
}

// entryService converts one host of a ServiceEntry, or returns nil if o is not one.
func (w *discoveryWork) entryService(o *Object, host string) *Service {
	spec, ok := o.Spec.(*networking.ServiceEntry)
	if !ok {
		return nil
	}
	s := &Service{
		ServiceKey: ServiceKey{host, o.Namespace},
		Registry:   External, Name: host, Object: o.ObjectKey, Created: o.Created,
		Resolution:   entryResolution(spec.GetResolution()),
		MeshExternal: spec.GetLocation() == networking.ServiceEntry_MESH_EXTERNAL,
		Address:      unspecifiedAddress,
		Labels:       o.Labels, Annotations: istioEntries(o.Annotations),
		ExportTo: w.narrowVisibility(ParseExportTo(spec.GetExportTo(), w.next.mesh.DefaultServiceExportTo, o.Namespace),
			o.Namespace),
		TrafficDistribution: w.annotatedDistribution(o),
		SubjectAltNames:     spec.GetSubjectAltNames(),
		ConnectStrategyRace: o.Annotations[annotationConnectStrategy] == connectStrategyRace,
		Selector:            entrySelector(spec),
	}
	w.setSession(s)
	for _, p := range spec.GetPorts() {
		s.Ports = append(s.Ports, &Port{
			Name: p.GetName(), Number: p.GetNumber(), Protocol: ParseProtocol(p.GetProtocol()), TargetPort: p.GetTargetPort(),
		})
	}
	if addresses := entryAddresses(spec); len(addresses) > 0 {
		s.Address, s.ClusterVIPs = addresses[0], map[string][]string{"": addresses}
	} else if w.next.settings.EnableIPAutoallocate && AutoAllocates(o, host) {
		s.AutoV4, s.AutoV6 = allocatedAddresses(o, host)
	}
	return s
}

func entryResolution(r networking.ServiceEntry_Resolution) Resolution {
	switch r {
	case networking.ServiceEntry_STATIC:
		return ClientSideLB
	case networking.ServiceEntry_DNS:
		return DNSLB
	case networking.ServiceEntry_DNS_ROUND_ROBIN:
		return DNSRoundRobin
	case networking.ServiceEntry_DYNAMIC_DNS:
		return DynamicDNS
	default:
		return Passthrough
	}
}

// entrySelector is nil without workloadSelector, and empty, which selects everything, if that names no labels.
func entrySelector(spec *networking.ServiceEntry) map[string]string {
	if spec.GetWorkloadSelector() == nil {
		return nil
	}
	if l := spec.GetWorkloadSelector().GetLabels(); l != nil {
		return l
	}
	return map[string]string{}
}

// entryAddresses returns the valid addresses: IPs, and CIDRs that hold more than one.
func entryAddresses(spec *networking.ServiceEntry) []string {
	var out []string
	for _, a := range spec.GetAddresses() {
		if ip, err := netip.ParseAddr(a); err == nil {
			out = append(out, ip.String())
			continue
		}
		p, err := netip.ParsePrefix(a)
		switch {
		case err != nil:
		case p.IsSingleIP():
			out = append(out, p.Addr().String())
		default:
			out = append(out, a)
		}
	}
	return out
}

// AutoAllocates tells whether a host of the ServiceEntry o takes part in address allocation.
func AutoAllocates(o *Object, host string) bool {
	spec, ok := o.Spec.(*networking.ServiceEntry)
	if !ok || spec.GetResolution() == networking.ServiceEntry_NONE || len(spec.GetAddresses()) > 0 {
		return false
	}
	if strings.EqualFold(o.Labels[labelAutoAllocate], "false") {
		return false
	}
	return !IsWildcard(host) || spec.GetResolution() == networking.ServiceEntry_DYNAMIC_DNS
}

// allocatedAddresses returns the first address of each family that the status holds for host.
func allocatedAddresses(o *Object, host string) (v4, v6 string) {
	status, ok := o.Status.(*networking.ServiceEntryStatus)
	if !ok {
		return "", ""
	}
	for _, a := range status.GetAddresses() {
		ip, err := netip.ParseAddr(a.GetValue())
		if err != nil || a.GetHost() != host {
			continue
		}
		if ip.Is4() && v4 == "" {
			v4 = ip.String()
		} else if !ip.Is4() && v6 == "" {
			v6 = ip.String()
		}
	}
	return v4, v6
}
