package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// brief writes what a service is, without its ports.
func brief(s *Service) string {
	if s == nil {
		return "none"
	}
	out := fmt.Sprintf("%s %s res=%d addr=%s", s.Registry, s.Name, s.Resolution, s.Address)
	for _, c := range slices.Sorted(maps.Keys(s.ClusterVIPs)) {
		out += fmt.Sprintf(" vips[%s]=%s", c, strings.Join(s.ClusterVIPs[c], ","))
	}
	if s.MeshExternal {
		out += " external"
	}
	if s.AliasOf != "" {
		out += " alias=" + s.AliasOf
	}
	if s.NodeLocal {
		out += " node-local"
	}
	if len(s.ExternalAddresses) > 0 {
		out += " world=" + strings.Join(s.ExternalAddresses, ",")
	}
	if s.TrafficDistribution != DistributeAny {
		out += fmt.Sprint(" near=", s.TrafficDistribution)
	}
	if len(s.SubjectAltNames) > 0 {
		out += " san=" + strings.Join(s.SubjectAltNames, ",")
	}
	if s.AutoV4+s.AutoV6 != "" {
		out += " auto=" + s.AutoV4 + "," + s.AutoV6
	}
	return out
}

func portsBrief(ports []*Port) string {
	var out []string
	for _, p := range ports {
		target := p.TargetPortName
		if target == "" {
			target = fmt.Sprint(p.TargetPort)
		}
		out = append(out, fmt.Sprintf("%s:%d/%s>%s", p.Name, p.Number, p.Protocol, target))
	}
	return strings.Join(out, " ")
}

func TestServiceConversion(t *testing.T) {
	t.Parallel()
	const head = "kind: Service\nmetadata: {name: a, namespace: ns1%s}\nspec: %s\n"
	for name, c := range map[string]struct{ meta, spec, rest, want string }{
		"plain":     {"", "{clusterIP: 10.0.0.1}", "", "Kubernetes a res=0 addr=10.0.0.1 vips[Kubernetes]=10.0.0.1"},
		"dual":      {"", `{clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1, "fd00::1"]}`, "", "Kubernetes a res=0 addr=10.0.0.1 vips[Kubernetes]=10.0.0.1,fd00::1"},
		"headless":  {"", "{clusterIP: None, clusterIPs: [None]}", "", "Kubernetes a res=3 addr=0.0.0.0"},
		"unset":     {"", "{}", "", "Kubernetes a res=0 addr=0.0.0.0"},
		"alias":     {"", "{type: ExternalName, externalName: b.com}", "", "Kubernetes a res=5 addr=0.0.0.0 external alias=b.com"},
		"nameless":  {"", "{type: ExternalName}", "", "Kubernetes a res=0 addr=0.0.0.0"},
		"nodelocal": {"", "{internalTrafficPolicy: Local}", "", "Kubernetes a res=0 addr=0.0.0.0 node-local"},
		"balancer": {
			"", "{type: LoadBalancer, externalIPs: [192.0.2.9]}",
			"status: {loadBalancer: {ingress: [{ip: 192.0.2.1, hostname: x.com}, {hostname: lb.com}]}}",
			"Kubernetes a res=0 addr=0.0.0.0 world=192.0.2.1,lb.com,192.0.2.9",
		},
		"node port":         {", annotations: {traffic.istio.io/nodeSelector: '{\"pool\": \"edge\"}'}", "{type: NodePort}", "", "Kubernetes a res=0 addr=0.0.0.0 world=192.0.2.50"},
		"node port, all":    {", annotations: {traffic.istio.io/nodeSelector: '{}'}", "{type: NodePort}", "", "Kubernetes a res=0 addr=0.0.0.0 world=192.0.2.50,192.0.2.51"},
		"node port, broken": {", annotations: {traffic.istio.io/nodeSelector: 'x'}", "{type: NodePort}", "", "Kubernetes a res=0 addr=0.0.0.0"},
		"accounts": {
			", annotations: {alpha.istio.io/canonical-serviceaccounts: 'spiffe://x/ns/y/sa/z', alpha.istio.io/kubernetes-serviceaccounts: 'b, c'}",
			"{}", "", "Kubernetes a res=0 addr=0.0.0.0 san=spiffe://cluster.local/ns/ns1/sa/b,spiffe://cluster.local/ns/ns1/sa/c,spiffe://x/ns/y/sa/z",
		},
		"spec before annotation":      {", annotations: {networking.istio.io/traffic-distribution: PreferSameNode}", "{trafficDistribution: PreferClose}", "", "Kubernetes a res=0 addr=0.0.0.0 near=1"},
		"annotation in any case":      {", annotations: {networking.istio.io/traffic-distribution: prefersamenode}", "{}", "", "Kubernetes a res=0 addr=0.0.0.0 near=2"},
		"unknown spec":                {", annotations: {networking.istio.io/traffic-distribution: PreferSameNode}", "{trafficDistribution: Other}", "", "Kubernetes a res=0 addr=0.0.0.0 near=2"},
		"distribution of namespace":   {", namespace: near", "{}", "", "Kubernetes a res=0 addr=0.0.0.0 near=1"},
		"unknown hides the namespace": {", namespace: near, annotations: {networking.istio.io/traffic-distribution: Other}", "{}", "", "Kubernetes a res=0 addr=0.0.0.0"},
	} {
		ns := "ns1"
		text := fmt.Sprintf(head, c.meta, c.spec) + c.rest
		if strings.Contains(c.meta, "namespace: near") {
			ns, text = "near", strings.Replace(text, "namespace: ns1, ", "", 1)
		}
		r := worldOf(t, `
kind: Namespace
metadata: {name: near, annotations: {networking.istio.io/traffic-distribution: PreferClose}}
---
kind: Node
metadata: {name: n1, labels: {pool: edge}}
status: {addresses: [{type: InternalIP, address: 10.9.0.1}, {type: ExternalIP, address: 192.0.2.50}]}
---
kind: Node
metadata: {name: n2}
status: {addresses: [{type: ExternalIP, address: 192.0.2.51}]}
---
kind: Node
metadata: {name: n3, labels: {pool: edge}}
---
`+text)
		if got := brief(r.Service(ServiceKey{"a." + ns + ".svc.cluster.local", ns})); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

func TestServicePortsAndSelector(t *testing.T) {
	t.Parallel()
	r := worldOf(t, `
kind: Service
metadata: {name: a, namespace: ns1}
spec:
  selector: {}
  ports: [{name: http-web, port: 80, targetPort: 8080}, {name: x, port: 81, targetPort: web}, {name: z, port: 82, protocol: UDP}]
`)
	s := r.Service(ServiceKey{"a.ns1.svc.cluster.local", "ns1"})
	if got, want := portsBrief(s.Ports), "http-web:80/HTTP>8080 x:81/UnsupportedProtocol>web z:82/UDP>82"; got != want {
		t.Errorf("ports: got %s, want %s", got, want)
	}
	if s.Selector != nil {
		t.Errorf("an empty selector selects %v", s.Selector)
	}
}

func TestServiceVisibility(t *testing.T) {
	t.Parallel()
	service := func(name string, age int, exportTo string) string {
		a := ""
		if exportTo != "" {
			a = ", annotations: {networking.istio.io/exportTo: '" + exportTo + "'}"
		}
		return fmt.Sprintf("kind: Service\nmetadata: {name: %s, namespace: ns1, creationTimestamp: '1970-01-01T00:00:%02dZ'%s}\n---\n", name, age, a)
	}
	r := worldOf(t, service("young", 9, "")+service("old", 1, "*, ns2")+service("own", 3, ".")+service("none", 4, "~, ns2")+
		service("some", 2, "ns2, ns3")+`
kind: ServiceEntry
metadata: {name: e, namespace: ns2, creationTimestamp: '1970-01-01T00:00:05Z'}
spec: {hosts: [ext.com]}
`)
	names := func(list []*Service) string {
		var out []string
		for _, s := range list {
			out = append(out, s.Name)
		}
		return strings.Join(out, " ")
	}
	for ns, want := range map[string]string{"ns1": "own", "ns2": "some", "ns3": "some", "ns4": ""} {
		exported, public := r.VisibleServices(ns)
		if got := names(exported); got != want {
			t.Errorf("exported to %s: got %q, want %q", ns, got, want)
		}
		// By age over all registries: what was there first is not pushed aside.
		if got := names(public); got != "old ext.com young" {
			t.Errorf("public: got %q", got)
		}
	}
}

func TestServiceEntryConversion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ meta, spec, status, want string }{
		"none":     {"", "{resolution: NONE}", "", "External h.com res=3 addr=0.0.0.0 external"},
		"static":   {"", "{resolution: STATIC, location: MESH_INTERNAL, addresses: [203.0.113.9]}", "", "External h.com res=0 addr=203.0.113.9 vips[]=203.0.113.9"},
		"dns":      {"", "{resolution: DNS}", "", "External h.com res=1 addr=0.0.0.0 external"},
		"one":      {"", "{resolution: DNS_ROUND_ROBIN}", "", "External h.com res=2 addr=0.0.0.0 external"},
		"dynamic":  {"", "{resolution: DYNAMIC_DNS}", "", "External h.com res=4 addr=0.0.0.0 external"},
		"many":     {"", "{addresses: [203.0.113.0/28, bad, 203.0.113.99/32]}", "", "External h.com res=3 addr=203.0.113.0/28 vips[]=203.0.113.0/28,203.0.113.99 external"},
		"accounts": {"", "{subjectAltNames: [b, a]}", "", "External h.com res=3 addr=0.0.0.0 external san=b,a"},
		"allocated": {
			"", "{resolution: DNS}", "{addresses: [{value: 240.240.0.9, host: other.com}, {value: 240.240.0.1, host: h.com}, {value: '2001:2::1', host: h.com}]}",
			"External h.com res=1 addr=0.0.0.0 external auto=240.240.0.1,2001:2::1",
		},
		"not allocated, label":   {", labels: {networking.istio.io/enable-autoallocate-ip: 'FALSE'}", "{resolution: DNS}", "{addresses: [{value: 240.240.0.1, host: h.com}]}", "External h.com res=1 addr=0.0.0.0 external"},
		"not allocated, NONE":    {"", "{resolution: NONE}", "{addresses: [{value: 240.240.0.1, host: h.com}]}", "External h.com res=3 addr=0.0.0.0 external"},
		"not allocated, address": {"", "{resolution: DNS, addresses: [203.0.113.9]}", "{addresses: [{value: 240.240.0.1, host: h.com}]}", "External h.com res=1 addr=203.0.113.9 vips[]=203.0.113.9 external"},
	} {
		spec := strings.Replace(c.spec, "{", "{hosts: [h.com, h.com], ", 1)
		text := fmt.Sprintf("kind: ServiceEntry\nmetadata: {name: e, namespace: ns1%s}\nspec: %s\n", c.meta, spec)
		if c.status != "" {
			text += "status: " + c.status
		}
		if got := brief(worldOf(t, text).Service(ServiceKey{"h.com", "ns1"})); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

func TestSeveralDefinitionsOfOneHost(t *testing.T) {
	t.Parallel()
	const entry = "kind: ServiceEntry\nmetadata: {name: %s, namespace: ns1, creationTimestamp: '1970-01-01T00:00:%02dZ'}\nspec: %s\n---\n"
	e := func(name string, age int, spec string) string { return fmt.Sprintf(entry, name, age, spec) }
	for name, c := range map[string]struct{ text, host, from, ports string }{
		"oldest counts, equal ones add ports": {
			e("new", 2, "{hosts: [h.com], resolution: DNS, ports: [{number: 443, name: tls, protocol: TLS}, {number: 80, name: other, protocol: TCP}]}") +
				e("old", 1, "{hosts: [h.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}"),
			"h.com", "ServiceEntry/ns1/old", "http:80/HTTP>0 tls:443/TLS>0",
		},
		"another resolution is passed over": {
			e("new", 2, "{hosts: [h.com], resolution: STATIC, ports: [{number: 443, name: tls, protocol: TLS}]}") +
				e("old", 1, "{hosts: [h.com], resolution: DNS, ports: [{number: 80, name: http, protocol: HTTP}]}"),
			"h.com", "ServiceEntry/ns1/old", "http:80/HTTP>0",
		},
		"Kubernetes beats an older entry": {
			e("old", 1, "{hosts: [foo.ns1.svc.cluster.local], ports: [{number: 81, name: tcp, protocol: TCP}]}") +
				"kind: Service\nmetadata: {name: foo, namespace: ns1, creationTimestamp: '1970-01-01T00:00:09Z'}\nspec: {ports: [{name: http, port: 80}]}",
			"foo.ns1.svc.cluster.local", "Service/ns1/foo", "http:80/HTTP>80",
		},
	} {
		r := worldOf(t, c.text)
		s := r.Service(ServiceKey{c.host, "ns1"})
		if got := s.Object.String(); got != c.from {
			t.Errorf("%s: from %s, want %s", name, got, c.from)
		}
		if got := portsBrief(s.Ports); got != c.ports {
			t.Errorf("%s: ports %s, want %s", name, got, c.ports)
		}
		if _, public := r.VisibleServices("ns9"); len(public) != 1 || public[0] != s {
			t.Errorf("%s: the public list is not the one service", name)
		}
	}
}

func TestAliases(t *testing.T) {
	t.Parallel()
	alias := func(name, ns, target string) string {
		return fmt.Sprintf("kind: Service\nmetadata: {name: %s, namespace: %s}\nspec: {type: ExternalName, externalName: %s}\n---\n", name, ns, target)
	}
	r := worldOf(t, alias("x", "ns1", "why.ns2.svc.cluster.local")+alias("w", "ns0", "x.ns1.svc.cluster.local")+
		alias("l", "ns1", "m.ns1.svc.cluster.local")+alias("m", "ns1", "l.ns1.svc.cluster.local")+alias("lost", "ns1", "nowhere.com")+
		"kind: Service\nmetadata: {name: why, namespace: ns2}\nspec: {clusterIP: 10.0.0.1}")
	for host, want := range map[string]string{
		"ns2/why.ns2.svc.cluster.local": "[ns0/w.ns0.svc.cluster.local ns1/x.ns1.svc.cluster.local]",
		"ns1/x.ns1.svc.cluster.local":   "[]", "ns1/l.ns1.svc.cluster.local": "[]", "ns1/m.ns1.svc.cluster.local": "[]",
	} {
		ns, h, _ := strings.Cut(host, "/")
		if got := fmt.Sprint(r.Aliases(ServiceKey{h, ns})); got != want {
			t.Errorf("aliases of %s: got %s, want %s", host, got, want)
		}
	}
}

func TestEndpointChangeLeavesServicesAlone(t *testing.T) {
	t.Parallel()
	objects := manifests(t, `
kind: Service
metadata: {name: s, namespace: a}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
---
kind: EndpointSlice
metadata: {name: s-1, namespace: a, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1]}]
`)
	b := NewBuilder(DefaultSettings(), testMesh())
	before, _ := b.Apply(present(objects...), nil)
	slice := manifest(t, `
kind: EndpointSlice
metadata: {name: s-1, namespace: a, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}]
`)
	after, keys := b.Apply(present(slice), nil)
	if &before.publicSvcs[0] != &after.publicSvcs[0] {
		t.Error("the list of public services was copied")
	}
	want := map[cell.Key]bool{
		{Table: TableObject, Name: "EndpointSlice/a/s-1"}:        true,
		{Table: TableObjects, Name: "EndpointSlice/a"}:           true,
		{Table: TableEndpoints, Name: "a/s.a.svc.cluster.local"}: true,
		{Table: TableTargets, Name: "a/10.1.0.2"}:                true,
	}
	for _, k := range keys {
		if !want[k] {
			t.Errorf("unexpected key %v", k)
		}
		delete(want, k)
	}
	for k := range want {
		t.Errorf("missing key %v", k)
	}
	k := ServiceKey{"s.a.svc.cluster.local", "a"}
	if NewReader(before, nil).Endpoints(k).All[0] != NewReader(after, nil).Endpoints(k).All[0] {
		t.Error("an unchanged endpoint is another one in memory")
	}
}
