package model

import (
	"fmt"
	"strings"
	"testing"
)

func TestWorkloadName(t *testing.T) {
	t.Parallel()
	for i, c := range []struct{ owner, labels, generate, want string }{
		{"", "", "", "p"},
		{"", "", "p-", "p"},
		{"{kind: ReplicaSet, name: web-5d9}", "pod-template-hash: 5d9", "web-5d9-", "web"},
		{"{kind: ReplicaSet, name: web-5d9}", "rollouts-pod-template-hash: 5d9", "web-5d9-", "web"},
		{"{kind: ReplicaSet, name: web-5d9}", "", "web-5d9-", "web-5d9"},
		{"{kind: ReplicationController, name: web-1}", "deploymentconfig: web", "web-1-", "web"},
		{"{kind: Job, name: tick-28391220}", "", "tick-28391220-", "tick"},
		{"{kind: Job, name: tick-123}", "", "tick-123-", "tick-123"},
		{"{kind: StatefulSet, name: db}", "", "db-", "db"},
		{"{kind: StatefulSet, name: db}", "", "", "p"},
		{"{kind: StatefulSet, name: db}", "service.istio.io/workload-name: own", "db-", "own"},
	} {
		owners := ""
		if c.owner != "" {
			owners = ", ownerReferences: [" + strings.Replace(c.owner, "{", "{controller: true, ", 1) + "]"
		}
		r := worldOf(t, fmt.Sprintf("kind: Pod\nmetadata: {name: p, namespace: a, generateName: '%s', labels: {%s}%s}\n", c.generate, c.labels, owners))
		if got := r.Workload("", "a", "p").Name; got != c.want {
			t.Errorf("case %d: got %s, want %s", i, got, c.want)
		}
	}
}

func TestPodReadinessAndAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meta, status string
		ready        bool
		ips          string
	}{
		"ready":       {"", "{podIP: 10.1.0.1, conditions: [{type: Ready, status: 'True'}]}", true, "10.1.0.1"},
		"dual":        {"", "{podIP: 10.1.0.1, podIPs: [{ip: 10.1.0.1}, {ip: 'fd00::1'}], conditions: [{type: Ready, status: 'True'}]}", true, "10.1.0.1 fd00::1"},
		"not ready":   {"", "{podIP: 10.1.0.1, conditions: [{type: Ready, status: 'False'}]}", false, "10.1.0.1"},
		"no address":  {"", "{conditions: [{type: Ready, status: 'True'}]}", false, ""},
		"terminating": {", deletionTimestamp: '2026-01-01T00:00:00Z'", "{podIP: 10.1.0.1, conditions: [{type: Ready, status: 'True'}]}", false, "10.1.0.1"},
		"evicted":     {"", "{podIP: 10.1.0.1, phase: Failed, conditions: [{type: Ready, status: 'True'}]}", false, ""},
	} {
		r := worldOf(t, fmt.Sprintf("kind: Pod\nmetadata: {name: p, namespace: a%s}\nstatus: %s\n", c.meta, c.status))
		w := r.Workload("Kubernetes", "a", "p")
		if w.Ready != c.ready || strings.Join(w.IPs, " ") != c.ips {
			t.Errorf("%s: ready %v at %v", name, w.Ready, w.IPs)
		}
		if byIP := r.WorkloadsByIP("10.1.0.1"); (len(byIP) == 1) != strings.HasPrefix(c.ips, "10.1.0.1") {
			t.Errorf("%s: found %d by address", name, len(byIP))
		}
	}
}

func TestNetworkOfSystemNamespaceReachesAllEndpoints(t *testing.T) {
	t.Parallel()
	b := NewBuilder(DefaultSettings(), testMesh())
	b.Apply(present(manifests(t, `
kind: Service
metadata: {name: s, namespace: a}
spec: {clusterIP: 10.0.0.1, ports: [{name: http, port: 80}]}
---
kind: Pod
metadata: {name: p, namespace: a}
status: {podIP: 10.1.0.1}
---
kind: EndpointSlice
metadata: {name: s-1, namespace: a, labels: {kubernetes.io/service-name: s}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [10.1.0.1], targetRef: {kind: Pod, name: p}}, {addresses: [192.0.2.1]}]
`)...), nil)
	pc, _ := b.Apply(present(manifest(t, `
kind: Namespace
metadata: {name: istio-system, labels: {topology.istio.io/network: n1}}
`)), nil)
	for _, e := range NewReader(pc, nil).Endpoints(ServiceKey{"s.a.svc.cluster.local", "a"}).All {
		if e.Network != "n1" || e.Labels[labelNetwork] != "n1" {
			t.Errorf("%v: network %q, label %q", e.Addresses, e.Network, e.Labels[labelNetwork])
		}
	}
}

func targetsBrief(list []ServiceTarget) string {
	var out []string
	for _, x := range list {
		out = append(out, fmt.Sprintf("%s:%s>%d", x.Service.Name, x.Port.Name, x.TargetPort))
	}
	return strings.Join(out, " ")
}

func TestServiceTargets(t *testing.T) {
	t.Parallel()
	r := worldOf(t, `
kind: Service
metadata: {name: till, namespace: shop, creationTimestamp: '1970-01-01T00:00:05Z'}
spec:
  selector: {app: till}
  ports:
  - {name: http, port: 80, targetPort: 8080}
  - {name: http-alt, port: 81, targetPort: 8080}
  - {name: tcp-same, port: 82, targetPort: 8080}
  - {name: grpc, port: 90, targetPort: rpc}
  - {name: tcp-x, port: 91, targetPort: missing}
  - {name: dns, port: 53, protocol: UDP}
---
kind: Service
metadata: {name: admin, namespace: shop, creationTimestamp: '1970-01-01T00:00:01Z'}
spec: {selector: {app: till}, ports: [{name: tcp, port: 80, targetPort: 8080}]}
---
kind: Service
metadata: {name: other, namespace: else}
spec: {selector: {app: till}, ports: [{name: tcp, port: 80}]}
---
kind: Service
metadata: {name: manual, namespace: shop}
spec: {ports: [{name: http, port: 7000}]}
---
kind: EndpointSlice
metadata: {name: manual-1, namespace: shop, labels: {kubernetes.io/service-name: manual}}
addressType: IPv4
ports: [{name: http, port: 7070}]
endpoints: [{addresses: [10.1.0.2]}, {addresses: [10.1.0.1]}]
---
kind: Pod
metadata: {name: till-1, namespace: shop, labels: {app: till}}
spec: {containers: [{name: a, ports: [{name: rpc, containerPort: 9091, protocol: TCP}, {name: missing, containerPort: 1, protocol: UDP}]}]}
status: {podIP: 10.1.0.1}
---
kind: Pod
metadata: {name: lone, namespace: shop}
status: {podIP: 10.1.0.2}
---
kind: WorkloadEntry
metadata: {name: vm, namespace: shop}
spec: {address: 10.2.0.1, labels: {app: till}, ports: {http: 9000}}
---
kind: ServiceEntry
metadata: {name: e, namespace: shop, creationTimestamp: '1970-01-01T00:00:09Z'}
spec: {hosts: [h.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP, targetPort: 8888}], workloadSelector: {labels: {app: till}}}
---
kind: ServiceEntry
metadata: {name: inline, namespace: else}
spec: {hosts: [far.com], resolution: STATIC, ports: [{number: 80, name: http, protocol: HTTP}], endpoints: [{address: 10.1.0.2}]}
`)
	for name, c := range map[string]struct {
		q    TargetQuery
		want string
	}{
		"pod":                          {TargetQuery{Namespace: "shop", ProxyName: "till-1", IPs: []string{"10.1.0.1"}}, "admin:tcp>8080 till:http>8080 till:tcp-same>8080 till:grpc>9091 till:dns>53"},
		"pod of no selector":           {TargetQuery{Namespace: "shop", ProxyName: "lone", IPs: []string{"10.1.0.2"}}, "manual:http>7070"},
		"entries of its own namespace": {TargetQuery{Namespace: "else", ProxyName: "none", IPs: []string{"10.1.0.2"}}, "far.com:http>80"},
		"WorkloadEntry":                {TargetQuery{Namespace: "shop", ProxyName: "vm", IPs: []string{"10.2.0.1"}}, "admin:tcp>8080 till:http>9000 till:http-alt>8080 till:tcp-same>8080 till:dns>53 h.com:http>9000"},
		"pod not known yet":            {TargetQuery{Namespace: "shop", ProxyName: "new", IPs: []string{"10.1.0.99"}, Labels: map[string]string{"app": "till"}, PodPorts: map[string]uint32{"rpc/TCP": 1234}}, "admin:tcp>8080 till:http>8080 till:tcp-same>8080 till:grpc>1234 till:dns>53"},
		"another cluster":              {TargetQuery{Cluster: "c2", Namespace: "shop", ProxyName: "till-1", IPs: []string{"10.2.0.1"}}, "h.com:http>9000"},
	} {
		if got := targetsBrief(r.ServiceTargets(c.q)); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}
