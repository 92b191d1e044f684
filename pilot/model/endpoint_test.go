package model

import (
	"fmt"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
)

func TestSliceHealth(t *testing.T) {
	t.Parallel()
	yes, no := ptr(true), ptr(false)
	plain, cookie, header := &Service{}, &Service{SessionCookie: "sid"}, &Service{SessionHeader: "x-sid"}
	for i, c := range []struct {
		ready, serving, terminating *bool
		service                     *Service
		want                        Health
	}{
		{nil, no, yes, plain, Healthy},
		{yes, nil, nil, plain, Healthy},
		{no, yes, yes, plain, Terminating},
		{no, nil, nil, plain, Terminating}, // a condition that is not given counts as true
		{no, yes, no, plain, Unhealthy},
		{no, no, no, plain, Unhealthy},
		{no, yes, yes, cookie, Draining},
		{no, nil, nil, cookie, Draining},
		{no, yes, yes, header, Draining},
		{no, no, yes, cookie, Terminating},
		{no, yes, no, cookie, Unhealthy},
	} {
		got := sliceHealth(&discoveryv1.EndpointConditions{Ready: c.ready, Serving: c.serving, Terminating: c.terminating}, c.service)
		if got != c.want {
			t.Errorf("case %d: got %d, want %d", i, got, c.want)
		}
	}
}

// endpointsBrief writes address, port and what else is given in fields, one endpoint a line.
func endpointsBrief(r *Reader, row string) string {
	ns, host, _ := strings.Cut(row, "/")
	var out []string
	for _, e := range r.Endpoints(ServiceKey{host, ns}).All {
		sa := e.ServiceAccount
		if i := strings.LastIndexByte(sa, '/'); i >= 0 {
			sa = sa[i+1:]
		}
		out = append(out, fmt.Sprintf("%s:%d %s h=%d %s/%s tls=%s at=%s net=%s sa=%s w=%d",
			strings.Join(e.Addresses, ","), e.Port, e.PortName, e.Health, e.Namespace, e.WorkloadName, e.TLSMode, e.Locality, e.Network, sa, e.Weight))
	}
	return strings.Join(out, "\n")
}

func TestSliceEndpoints(t *testing.T) {
	t.Parallel()
	r := worldOf(t, `
kind: Service
metadata: {name: s, namespace: a}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
---
kind: Node
metadata: {name: n1, labels: {topology.kubernetes.io/region: r, failure-domain.beta.kubernetes.io/zone: z}}
---
kind: Pod
metadata: {name: p1, namespace: a, labels: {security.istio.io/tlsMode: istio, app: web, version: v2}}
spec: {nodeName: n1, serviceAccountName: sa1, subdomain: sub}
status: {podIP: 10.1.0.1, conditions: [{type: Ready, status: "False"}]}
---
kind: Pod
metadata: {name: p2, namespace: a, labels: {istio-locality: x.y.z, topology.istio.io/network: n2}}
spec: {nodeName: n1, serviceAccountName: sa2}
status: {podIP: 10.1.0.2, conditions: [{type: Ready, status: "True"}]}
---
kind: EndpointSlice
metadata: {name: s-1, namespace: a, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.1.0.1], targetRef: {kind: Pod, name: p1, namespace: a}}
- {addresses: [10.1.0.9], targetRef: {kind: Pod, name: missing, namespace: a}}
- {addresses: [10.1.0.2]}
- {addresses: [192.0.2.7]}
---
kind: EndpointSlice
metadata: {name: s-2, namespace: a, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1], conditions: {ready: false}, targetRef: {kind: Pod, name: p1, namespace: a}}]
---
kind: EndpointSlice
metadata: {name: s-3, namespace: a, labels: {kubernetes.io/service-name: s, multicluster.kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.77]}]
---
kind: EndpointSlice
metadata: {name: s-4, namespace: a, labels: {kubernetes.io/service-name: s}}
addressType: FQDN
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [x.com]}]
`)
	want := `10.1.0.1:8080 http h=1 a/p1 tls=istio at=r/z/ net= sa=sa1 w=0
10.1.0.2:8080 http h=1 a/p2 tls=disabled at=x/y/z net=n2 sa=sa2 w=0
192.0.2.7:8080 http h=1 / tls=disabled at= net= sa= w=0`
	if got := endpointsBrief(r, "a/s.a.svc.cluster.local"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	e := r.Endpoints(ServiceKey{"s.a.svc.cluster.local", "a"}).All[0]
	wantLabels := map[string]string{
		labelTLSMode: "istio", "app": "web", "version": "v2", labelRegion: "r", labelZone: "z", labelCluster: "Kubernetes", labelHostname: "n1",
	}
	if got := jsonText(e.Labels); got != jsonText(wantLabels) {
		t.Errorf("labels %s, want %s", got, jsonText(wantLabels))
	}
	if e.Subdomain != "sub" || e.Hostname != "p1" || e.CanonicalName != "web" || e.CanonicalRevision != "v2" || e.Node != "n1" {
		t.Errorf("pod's own facts: %+v", e)
	}
}

func TestEntryEndpoints(t *testing.T) {
	t.Parallel()
	const text = `
kind: Pod
metadata: {name: p, namespace: a, labels: {app: bill, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: sa}
status: {podIP: 10.1.0.1, conditions: [{type: Ready, status: "True"}]}
---
kind: Pod
metadata: {name: q, namespace: a, labels: {app: bill}}
spec: {serviceAccountName: sa}
status: {podIP: 10.1.0.2, conditions: [{type: Ready, status: "False"}]}
---
kind: WorkloadEntry
metadata: {name: vm-a, namespace: a, labels: {app: bill}}
spec: {address: 10.2.0.1, labels: {app: overridden}, serviceAccount: vm, ports: {http: 9080}, locality: eu/x, weight: 4}
---
kind: WorkloadEntry
metadata: {name: vm-name, namespace: a}
spec: {address: vm.example.com, labels: {app: bill}, network: n9}
---
kind: WorkloadEntry
metadata: {name: vm-new, namespace: a, annotations: {proxy.istio.io/health-checks-enabled: "true"}}
spec: {address: 10.2.0.3, labels: {app: bill}}
---
kind: WorkloadEntry
metadata: {name: vm-well, namespace: a, annotations: {proxy.istio.io/health-checks-enabled: "true"}}
spec: {address: 10.2.0.4, labels: {app: bill}}
status: {conditions: [{type: Healthy, status: "True"}]}
---
kind: ServiceEntry
metadata: {name: e, namespace: a}
spec: `
	const pod, vmA, well = " h=1 a/p tls=istio at= net= sa=sa w=0", " h=0 a/vm-a tls=istio at=eu/x net= sa=vm w=4", " h=0 a/vm-well tls=disabled at= net= sa= w=0"
	for name, c := range map[string]struct{ spec, want string }{
		"ports": {
			`{hosts: [h.com], resolution: STATIC, ports: [{number: 80, name: http, targetPort: 9090}, {number: 81, name: tcp}],
			endpoints: [{address: 10.9.0.1, ports: {http: 8080}, serviceAccount: x, weight: 3}, {address: "unix:///s", labels: {security.istio.io/tlsMode: custom}}]}`,
			"10.9.0.1:8080 http h=0 a/e-0 tls=istio at= net= sa=x w=3\n10.9.0.1:81 tcp h=0 a/e-0 tls=istio at= net= sa=x w=3\n" +
				"unix:///s:0 http h=0 a/e-1 tls=custom at= net= sa= w=0\nunix:///s:0 tcp h=0 a/e-1 tls=custom at= net= sa= w=0",
		},
		"NONE has none": {`{hosts: [h.com], resolution: NONE, ports: [{number: 80, name: http}], endpoints: [{address: 10.9.0.1}]}`, ""},
		"STATIC without any": {
			`{hosts: [h.com], resolution: STATIC, ports: [{number: 80, name: http}]}`, "",
		},
		"DNS without any is the host": {
			`{hosts: [h.com], resolution: DNS, ports: [{number: 443, name: tls, targetPort: 8443}]}`, "h.com:8443 tls h=0 a/e tls=disabled at= net= sa= w=0",
		},
		"DNS_ROUND_ROBIN takes one a port": {
			`{hosts: [h.com], resolution: DNS_ROUND_ROBIN, ports: [{number: 80, name: http}, {number: 81, name: tcp}], endpoints: [{address: a.com}, {address: b.com}]}`,
			"a.com:80 http h=0 a/e-0 tls=disabled at= net= sa= w=0\na.com:81 tcp h=0 a/e-0 tls=disabled at= net= sa= w=0",
		},
		"STATIC selects addresses": {
			`{hosts: [h.com], resolution: STATIC, ports: [{number: 80, name: http, targetPort: 8080}], workloadSelector: {labels: {app: bill}}}`,
			"10.1.0.1:8080 http" + pod + "\n10.2.0.1:9080 http" + vmA + "\n10.2.0.4:8080 http" + well,
		},
		"DNS selects names too": {
			`{hosts: [h.com], resolution: DNS, ports: [{number: 80, name: http}], workloadSelector: {labels: {app: bill}}}`,
			"10.1.0.1:80 http" + pod + "\n10.2.0.1:9080 http" + vmA + "\nvm.example.com:80 http h=0 a/vm-name tls=disabled at= net=n9 sa= w=0\n10.2.0.4:80 http" + well,
		},
		"an empty selector selects everything": {
			`{hosts: [h.com], resolution: STATIC, ports: [{number: 80, name: http}], workloadSelector: {}}`,
			"10.1.0.1:80 http" + pod + "\n10.2.0.1:9080 http" + vmA + "\n10.2.0.4:80 http" + well,
		},
	} {
		if got := endpointsBrief(worldOf(t, text+c.spec), "a/h.com"); got != c.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestServiceSelectsWorkloadEntries(t *testing.T) {
	t.Parallel()
	r := worldOf(t, `
kind: Service
metadata: {name: s, namespace: a}
spec:
  selector: {app: x}
  clusterIP: 10.0.0.1
  ports: [{name: http, port: 80, targetPort: 8080}, {name: adm, port: 81, targetPort: admin}, {name: dns, port: 53, protocol: UDP}]
---
kind: WorkloadEntry
metadata: {name: full, namespace: a}
spec: {address: 10.2.0.1, labels: {app: x}, ports: {http: 9000, admin: 9001}}
---
kind: WorkloadEntry
metadata: {name: bare, namespace: a}
spec: {address: 10.2.0.2, labels: {app: x}}
---
kind: WorkloadEntry
metadata: {name: named, namespace: a}
spec: {address: vm.example.com, labels: {app: x}}
---
kind: WorkloadEntry
metadata: {name: elsewhere, namespace: b}
spec: {address: 10.2.0.3, labels: {app: x}}
`)
	want := `10.2.0.2:8080 http h=0 a/bare tls=disabled at= net= sa= w=0
10.2.0.1:9000 http h=0 a/full tls=disabled at= net= sa= w=0
10.2.0.1:9001 adm h=0 a/full tls=disabled at= net= sa= w=0`
	if got := endpointsBrief(r, "a/s.a.svc.cluster.local"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestAccountsFollowTrustDomainAliases(t *testing.T) {
	t.Parallel()
	b := NewBuilder(DefaultSettings(), testMesh())
	b.Apply(present(manifests(t, `
kind: ServiceEntry
metadata: {name: e, namespace: a}
spec: {hosts: [h.com], resolution: STATIC, subjectAltNames: [h.com], ports: [{number: 80, name: http}], endpoints: [{address: 10.1.0.1, serviceAccount: x}]}
`)...), nil)
	m := testMesh()
	m.Config.TrustDomainAliases = []string{"old"}
	pc, keys := b.Apply(nil, m)
	got := NewReader(pc, nil).ServiceAccounts(ServiceKey{"h.com", "a"})
	if want := "h.com spiffe://cluster.local/ns/a/sa/x spiffe://old/ns/a/sa/x"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if !hasKey(keys, TableAccounts, "a/h.com") || hasKey(keys, TableEndpoints, "a/h.com") {
		t.Errorf("keys: %v", keys)
	}
}
