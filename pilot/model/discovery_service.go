package model

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
)

// The annotations and labels of services that discovery reads.
const (
	annotationExportTo     = "networking.istio.io/exportTo"
	annotationDistribution = "networking.istio.io/traffic-distribution"
	annotationCanonicalSA  = "alpha.istio.io/canonical-serviceaccounts"
	annotationKubernetesSA = "alpha.istio.io/kubernetes-serviceaccounts"
	annotationStrategy     = "istio.io/connect-strategy"
	labelSessionCookie     = "istio.io/persistent-session"
	labelSessionHeader     = "istio.io/persistent-session-header"
	labelAutoAllocate      = "networking.istio.io/enable-autoallocate-ip"
	unspecified            = "0.0.0.0"
)

// deriveServices recomputes the marked services and the lists they stand in.
func (d *discovery) deriveServices() {
	if len(d.services) == 0 {
		return
	}
	rows := d.next.services.Txn()
	var public listEdit[*Service]
	exported := map[string]*listEdit[*Service]{}
	hosts := map[string]struct{}{}
	for row := range d.services {
		old, had := rows.Get(row)
		now := d.service(row)
		if now != nil && had && reflect.DeepEqual(old, now) || now == nil && !had {
			continue
		}
		var ref *Service
		if had {
			ref = old
		} else {
			ref = now
		}
		d.touch(TableService, row)
		d.touch(TableNamespaceService, ref.Namespace)
		if had != (now != nil) {
			hosts[ref.Host] = struct{}{}
		}
		d.touch(TableAccounts, row)
		if now == nil {
			rows.Delete(row)
		} else {
			rows.Set(row, now)
		}
		d.editVisible(old, had, true, &public, exported)
		d.editVisible(now, now != nil, false, &public, exported)
		d.indexAlias(old, now)
	}
	d.next.services = rows.Commit()
	d.applyVisible(&public, exported)
	d.applyHosts(hosts)
	d.deriveAliases()
}

func (d *discovery) editVisible(s *Service, present, leaves bool, public *listEdit[*Service], exported map[string]*listEdit[*Service]) {
	if !present {
		return
	}
	edit := func(e *listEdit[*Service]) {
		if leaves {
			e.remove(s)
		} else {
			e.added = append(e.added, s)
		}
	}
	if s.ExportTo.Public {
		edit(public)
		return
	}
	for ns := range s.ExportTo.Namespaces {
		if exported[ns] == nil {
			exported[ns] = &listEdit[*Service]{}
		}
		edit(exported[ns])
	}
}

// registryOrder puts Kubernetes services first, each registry in creation order.
func registryOrder(a, b *Service) int {
	if a.Registry != b.Registry {
		if a.Registry == Kubernetes {
			return -1
		}
		return 1
	}
	if c := OlderService(a, b); c != 0 {
		return c
	}
	return strings.Compare(a.Host, b.Host)
}

func (d *discovery) applyVisible(public *listEdit[*Service], exported map[string]*listEdit[*Service]) {
	if !public.empty() {
		d.next.publicSvcs = public.apply(d.prev.publicSvcs, registryOrder)
		d.touch(TableVisible, "*")
	}
	if len(exported) == 0 {
		return
	}
	x := d.next.exportedSvcs.Txn()
	for ns, e := range exported {
		list, _ := x.Get(ns)
		setRows(x, ns, e.apply(list, registryOrder))
		d.touch(TableVisible, ns)
	}
	d.next.exportedSvcs = x.Commit()
}

func (d *discovery) applyHosts(hosts map[string]struct{}) {
	if len(hosts) == 0 {
		return
	}
	x := d.next.hosts.Txn()
	for row := range d.services {
		ns, host, _ := strings.Cut(row, "/")
		if _, changed := hosts[host]; !changed {
			continue
		}
		list, _ := x.Get(host)
		list = slices.DeleteFunc(slices.Clone(list), func(n string) bool { return n == ns })
		if _, ok := d.next.services.Get(row); ok {
			list = append(list, ns)
			slices.Sort(list)
		}
		setRows(x, host, list)
		d.touch(TableHost, host)
	}
	d.next.hosts = x.Commit()
}

// service makes the service of a row: the Kubernetes Service of that host, else the oldest ServiceEntry.
func (d *discovery) service(row string) *Service {
	ns, host, _ := strings.Cut(row, "/")
	if name, ok := strings.CutSuffix(host, "."+ns+".svc."+d.settings.Domain); ok {
		if o, ok := d.next.objects[KindService].Get(ns + "/" + name); ok {
			if spec, ok := o.Spec.(*corev1.Service); ok {
				return d.kubernetesService(o, spec, host)
			}
		}
	}
	if entries := d.entriesOf(row); len(entries) > 0 {
		return d.entryService(entries[0], host)
	}
	return nil
}

// entriesOf returns the ServiceEntries that define a row's host, oldest first.
func (d *discovery) entriesOf(row string) []*Object {
	var out []*Object
	for r := range d.state.entries[row] {
		if o, ok := d.next.objects[KindServiceEntry].Get(r); ok {
			out = append(out, o)
		}
	}
	sortOldest(out)
	return out
}

func (d *discovery) kubernetesService(o *Object, s *corev1.Service, host string) *Service {
	out := &Service{
		ServiceKey: ServiceKey{host, o.Namespace}, Registry: Kubernetes, Name: o.Name, Object: o.ObjectKey, Created: o.Created,
		Address: unspecified, Selector: s.Spec.Selector, Labels: o.Labels, Annotations: o.Annotations,
		PublishNotReady: s.Spec.PublishNotReadyAddresses, ExternalAddresses: externalAddresses(s),
		SessionCookie: o.Labels[labelSessionCookie], SessionHeader: o.Labels[labelSessionHeader],
	}
	if len(s.Spec.Selector) == 0 {
		out.Selector = nil
	}
	vips := s.Spec.ClusterIPs
	if len(vips) == 0 && s.Spec.ClusterIP != "" {
		vips = []string{s.Spec.ClusterIP}
	}
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName && s.Spec.ExternalName != "":
		out.Resolution, out.MeshExternal, out.AliasOf = Alias, true, s.Spec.ExternalName
	case len(vips) > 0 && vips[0] == corev1.ClusterIPNone:
		out.Resolution = Passthrough
	case len(vips) > 0:
		out.Address = vips[0]
		out.ClusterVIPs = map[string][]string{d.settings.ClusterID: vips}
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyLocal {
		out.NodeLocal = true
	}
	for i := range s.Spec.Ports {
		out.Ports = append(out.Ports, kubernetesPort(&s.Spec.Ports[i]))
	}
	var exportTo []string
	if v, ok := o.Annotations[annotationExportTo]; ok {
		exportTo = splitList(v)
	}
	out.ExportTo = ParseExportTo(exportTo, d.next.mesh.DefaultServiceExportTo, o.Namespace)
	fieldValue := ""
	if s.Spec.TrafficDistribution != nil {
		fieldValue = *s.Spec.TrafficDistribution
	}
	out.TrafficDistribution = d.distribution(fieldValue, o)
	out.SubjectAltNames = splitList(o.Annotations[annotationCanonicalSA])
	for _, sa := range splitList(o.Annotations[annotationKubernetesSA]) {
		out.SubjectAltNames = append(out.SubjectAltNames, spiffeID(d.next.mesh.TrustDomain(), o.Namespace, sa))
	}
	return out
}

func kubernetesPort(p *corev1.ServicePort) *Port {
	appProtocol := ""
	if p.AppProtocol != nil {
		appProtocol = *p.AppProtocol
	}
	number := uint32(p.Port) //nolint:gosec // the API allows 1 to 65535
	out := &Port{Name: p.Name, Number: number, Protocol: KubernetesProtocol(number, p.Name, appProtocol, string(p.Protocol))}
	switch {
	case p.TargetPort.StrVal != "":
		out.TargetPortName = p.TargetPort.StrVal
	case p.TargetPort.IntVal != 0:
		out.TargetPort = uint32(p.TargetPort.IntVal) //nolint:gosec // as above
	default:
		out.TargetPort = number
	}
	return out
}

func externalAddresses(s *corev1.Service) []string {
	out := slices.Clone(s.Spec.ExternalIPs)
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return out
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if in.IP != "" {
			out = append(out, in.IP)
		} else if in.Hostname != "" {
			out = append(out, in.Hostname)
		}
	}
	return out
}

func splitList(s string) []string {
	var out []string
	for _, p := range strings.Split(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

func spiffeID(trustDomain, namespace, account string) string {
	return "spiffe://" + trustDomain + "/ns/" + namespace + "/sa/" + account
}

// distribution takes the field, else the object's annotation, else the namespace's.
func (d *discovery) distribution(field string, o *Object) TrafficDistribution {
	switch field {
	case "PreferClose", "PreferSameZone":
		return PreferSameZone
	case "PreferSameNode":
		return PreferSameNode
	}
	word := o.Annotations[annotationDistribution]
	if word == "" {
		if ns, ok := d.next.objects[KindNamespace].Get("/" + o.Namespace); ok {
			word = ns.Annotations[annotationDistribution]
		}
	}
	switch strings.ToLower(word) {
	case "preferclose", "prefersamezone":
		return PreferSameZone
	case "prefersamenode":
		return PreferSameNode
	}
	return DistributeAny
}

func (d *discovery) entryService(o *Object, host string) *Service {
	e, _ := o.Spec.(*networking.ServiceEntry)
	out := &Service{
		ServiceKey: ServiceKey{host, o.Namespace}, Registry: External, Name: host, Object: o.ObjectKey, Created: o.Created,
		Resolution: entryResolution(e.GetResolution()), MeshExternal: e.GetLocation() == networking.ServiceEntry_MESH_EXTERNAL,
		Address: unspecified, Labels: o.Labels, Annotations: o.Annotations, SubjectAltNames: e.GetSubjectAltNames(),
		ExportTo:            ParseExportTo(e.GetExportTo(), d.next.mesh.DefaultServiceExportTo, o.Namespace),
		TrafficDistribution: d.distribution("", o),
		ConnectStrategyRace: o.Annotations[annotationStrategy] == "RACE_FIRST_TCP_CONNECT",
		SessionCookie:       o.Labels[labelSessionCookie], SessionHeader: o.Labels[labelSessionHeader],
	}
	if sel := e.GetWorkloadSelector(); sel != nil {
		out.Selector = map[string]string{}
		for k, v := range sel.GetLabels() {
			out.Selector[k] = v
		}
	}
	if addresses := entryAddresses(e); len(addresses) > 0 {
		out.Address = addresses[0]
		out.ClusterVIPs = map[string][]string{"": addresses}
	}
	out.AutoV4, out.AutoV6 = d.autoAddresses(o, e, host)
	for _, p := range e.GetPorts() {
		port := &Port{Name: p.GetName(), Number: p.GetNumber(), Protocol: ParseProtocol(p.GetProtocol()), TargetPort: p.GetTargetPort()}
		out.Ports = append(out.Ports, port)
	}
	return out
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
	}
	return Passthrough
}

// entryAddresses returns the valid addresses; a prefix of full length is a plain address.
func entryAddresses(e *networking.ServiceEntry) []string {
	var out []string
	for _, a := range e.GetAddresses() {
		if ip, err := netip.ParseAddr(a); err == nil {
			out = append(out, ip.String())
			continue
		}
		p, err := netip.ParsePrefix(a)
		if err != nil {
			continue
		}
		if p.IsSingleIP() {
			out = append(out, p.Addr().String())
		} else {
			out = append(out, a)
		}
	}
	return out
}

// autoAddresses returns the allocated addresses that the status records for a host, if the entry still is eligible.
func (d *discovery) autoAddresses(o *Object, e *networking.ServiceEntry, host string) (v4, v6 string) {
	if !d.settings.EnableIPAutoallocate || len(e.GetAddresses()) > 0 || e.GetResolution() == networking.ServiceEntry_NONE ||
		strings.EqualFold(o.Labels[labelAutoAllocate], "false") ||
		strings.HasPrefix(host, "*") && e.GetResolution() != networking.ServiceEntry_DYNAMIC_DNS {
		return "", ""
	}
	status, _ := o.Status.(*networking.ServiceEntryStatus)
	for _, a := range status.GetAddresses() {
		ip, err := netip.ParseAddr(a.GetValue())
		if err != nil || a.GetHost() != host {
			continue
		}
		switch {
		case ip.Is4() && v4 == "":
			v4 = ip.String()
		case ip.Is6() && v6 == "":
			v6 = ip.String()
		}
	}
	return v4, v6
}

// indexAlias keeps the index of Alias services by target.
func (d *discovery) indexAlias(old, now *Service) {
	if old != nil && old.AliasOf != "" {
		d.state.aliases.drop(old.AliasOf, old.ServiceKey.String())
	}
	if now != nil && now.AliasOf != "" {
		d.state.aliases.add(now.AliasOf, now.ServiceKey.String())
	}
}

// deriveAliases recomputes which services stand for which. There are few, so all of them are looked at.
func (d *discovery) deriveAliases() {
	if len(d.state.aliases) == 0 && d.next.aliases.Len() == 0 {
		return
	}
	want := map[string][]ServiceKey{}
	for _, rows := range d.state.aliases {
		for row := range rows {
			s, ok := d.next.services.Get(row)
			if !ok {
				continue
			}
			for _, target := range d.aliasTargets(s) {
				want[target.String()] = append(want[target.String()], s.ServiceKey)
			}
		}
	}
	x := d.next.aliases.Txn()
	for row := range d.next.aliases.All() {
		if _, ok := want[row]; !ok {
			d.touch(TableAliases, row)
			x.Delete(row)
		}
	}
	for row, list := range want {
		slices.SortFunc(list, func(a, b ServiceKey) int {
			if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
				return c
			}
			return strings.Compare(a.Host, b.Host)
		})
		if old, _ := x.Get(row); !slices.Equal(old, list) {
			d.touch(TableAliases, row)
			x.Set(row, list)
		}
	}
	d.next.aliases = x.Commit()
}

// aliasTargets follows a chain of aliases to the concrete services of the last host; a loop leads nowhere.
func (d *discovery) aliasTargets(s *Service) []ServiceKey {
	seen := map[string]struct{}{}
	host := s.AliasOf
	for {
		if _, loop := seen[host]; loop {
			return nil
		}
		seen[host] = struct{}{}
		namespaces, _ := d.next.hosts.Get(host)
		var concrete []ServiceKey
		next := ""
		for _, ns := range namespaces {
			t, _ := d.next.services.Get(ns + "/" + host)
			if t.Resolution == Alias {
				next = t.AliasOf
			} else {
				concrete = append(concrete, t.ServiceKey)
			}
		}
		if len(concrete) > 0 || next == "" {
			return concrete
		}
		host = next
	}
}
