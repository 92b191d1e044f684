package view

import (
	"fmt"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

func TestDefaultScope(t *testing.T) {
	t.Parallel()
	w := newWorld(
		service("ns2/late", 5, "", 80),
		service("ns2/early", 1, "", 80, 443),
		service("ns3/for-ns1", 9, "ns1", 80),
		service("ns3/hidden", 1, "~", 80),
		service("ns1/own", 7, ".", 80),
		entry(t, "ns3/a", 8, "shared.com", "", 80),
		entry(t, "ns1/a", 9, "shared.com", "", 81),
		entry(t, "ns2/squat", 0, "late.ns2.svc.cluster.local", "", 7),
		entry(t, "ns5/squat", 0, "early.ns2.svc.cluster.local", "", 7),
		entry(t, "ns3/squat", 9, "early.ns2.svc.cluster.local", "", 7),
	)
	for ns, want := range map[string]string{
		"ns1": "own.ns1@ns1:80 for-ns1.ns3@ns3:80 early.ns2@ns2:80,443 late.ns2@ns2:80 shared.com@ns1:81",
		"ns3": "late.ns2@ns2:80 shared.com@ns3:80 early.ns2@ns3:7",
		"ns4": "early.ns2@ns2:80,443 late.ns2@ns2:80 shared.com@ns3:80", // Kubernetes wins over an older entry elsewhere
	} {
		s := w.scope(ns, nil)
		got := services(s.Services)
		if got != want {
			t.Errorf("%s: %s\nwant %s", ns, got, want)
		}
		if len(s.Listeners) != 1 || s.Listeners[0].Spec != nil || services(s.Listeners[0].Services) != got {
			t.Errorf("%s: listeners %v", ns, s.Listeners)
		}
		if f := s.Find("shared.com"); f == nil || s.Find("nowhere.com") != nil {
			t.Errorf("%s: Find gives %v", ns, f)
		}
		if s.OutboundPolicy.GetMode() != networking.OutboundTrafficPolicy_ALLOW_ANY {
			t.Errorf("%s: policy %v", ns, s.OutboundPolicy)
		}
	}
}

// Namespaces that nothing distinguishes have one scope in common.
func TestSharedScope(t *testing.T) {
	t.Parallel()
	w := newWorld(service("ns1/a", 1, "", 80), service("ns2/own", 2, ".", 80))
	id := func(ns string) ScopeID {
		c, _ := w.context(ns, nil)
		return c.SharedScopeID()
	}
	if id("ns1") != id("ns3") || id("ns2") == id("ns3") {
		t.Errorf("ns1 %v, ns2 %v, ns3 %v", id("ns1"), id("ns2"), id("ns3"))
	}
	w.apply(entry(t, "ns3/squat", 9, "a.ns1.svc.cluster.local", "", 7))
	if id("ns1") == id("ns3") {
		t.Errorf("each prefers its own service, but both have %v", id("ns1"))
	}
}

// sidecarWorld has services a (80, 9080) and b (80) in ns1, c (80, 9080) in ns2, and external hosts.
func sidecarWorld(t *testing.T, more ...*model.Object) *world {
	return newWorld(append([]*model.Object{
		service("ns1/a", 1, "", 80, 9080), service("ns1/b", 2, "", 80), service("ns2/c", 3, "", 80, 9080),
		entry(t, "ns3/x", 4, "x.ext.com", "", 443), entry(t, "ns3/wild", 5, "*.ext.com", "", 443),
	}, more...)...)
}

func TestSidecarImports(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ egress, want string }{
		"own namespace":        {`[{hosts: ["./*"]}]`, "a.ns1@ns1:80,9080 b.ns1@ns1:80"},
		"all":                  {`[{hosts: ["*/*"]}]`, "a.ns1@ns1:80,9080 b.ns1@ns1:80 c.ns2@ns2:80,9080 x.ext.com@ns3:443 *.ext.com@ns3:443"},
		"exclusion":            {`[{hosts: ["*/*", "~ns2/*", "~/*.com"]}]`, "a.ns1@ns1:80,9080 b.ns1@ns1:80"},
		"nothing":              {`[{hosts: ["~/*"]}]`, ""},
		"exact host":           {`[{hosts: ["ns2/c.ns2.svc.cluster.local"]}]`, "c.ns2@ns2:80,9080"},
		"wrong namespace":      {`[{hosts: ["ns1/c.ns2.svc.cluster.local"]}]`, ""},
		"wildcard":             {`[{hosts: ["*/*.ext.com"]}]`, "x.ext.com@ns3:443 *.ext.com@ns3:443"},
		"no wildcard by exact": {`[{hosts: ["*/x.ext.com"]}]`, "x.ext.com@ns3:443"},
		"bad entries":          {`[{hosts: ["a", "x/y/z", "./b.ns1.svc.cluster.local"]}]`, "b.ns1@ns1:80"},
		"port":                 {`[{port: {number: 9080, protocol: HTTP, name: h}, hosts: ["*/*"]}]`, "a.ns1@ns1:9080 c.ns2@ns2:9080"},
		"proxy port":           {`[{port: {number: 9080, protocol: HTTP_PROXY, name: h}, hosts: ["./*"]}]`, "a.ns1@ns1:80,9080 b.ns1@ns1:80"},
		"two listeners":        {`[{port: {number: 9080, protocol: HTTP, name: h}, hosts: ["./*"]}, {port: {number: 80, protocol: HTTP, name: g}, hosts: ["*/*"]}]`, "a.ns1@ns1:9080,80 b.ns1@ns1:80 c.ns2@ns2:80"},
		"none given":           {`[]`, "a.ns1@ns1:80,9080 b.ns1@ns1:80 c.ns2@ns2:80,9080 x.ext.com@ns3:443 *.ext.com@ns3:443"},
	} {
		w := sidecarWorld(t, object(t, model.KindSidecar, "ns1/s", 1, "egress: "+c.egress))
		if got := services(w.scope("ns1", nil).Services); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}

func TestSidecarVirtualServices(t *testing.T) {
	t.Parallel()
	gatewayAPI := object(t, model.KindVirtualService, "ns1/route", 9, `hosts: ["*.ext.com"]`)
	gatewayAPI.Annotations = map[string]string{"internal.istio.io/route-semantics": "gateway"}
	objects := []*model.Object{
		object(t, model.KindVirtualService, "ns1/own", 5, `{hosts: [a], exportTo: ["."]}`),
		object(t, model.KindVirtualService, "ns2/told", 4, `{hosts: [c], exportTo: [ns1]}`),
		object(t, model.KindVirtualService, "ns3/wild", 3, `hosts: ["*.ext.com"]`),
		object(t, model.KindVirtualService, "ns3/exact", 2, `hosts: [x.ext.com]`),
		object(t, model.KindVirtualService, "ns3/ingress", 1, `{hosts: [x.ext.com], gateways: [gw]}`),
		gatewayAPI,
	}
	for egress, want := range map[string]string{
		`[]`:                         "ns1/own ns2/told ns1/route ns3/exact ns3/wild",
		`[{hosts: ["./*"]}]`:         "ns1/own ns1/route",
		`[{hosts: ["*/x.ext.com"]}]`: "ns3/exact ns3/wild",
		`[{hosts: ["*/*.com"]}]`:     "ns1/route ns3/exact ns3/wild",
		`[{hosts: ["*/*", "~ns3/x.ext.com", "~ns2/*"]}]`: "ns1/own ns1/route ns3/wild",
	} {
		w := sidecarWorld(t, append(objects, object(t, model.KindSidecar, "ns1/s", 1, "egress: "+egress))...)
		if got := rules(w.scope("ns1", nil).Listeners[0].VirtualServices); got != want {
			t.Errorf("%s: %s\nwant %s", egress, got, want)
		}
	}
}

func TestImplicitDestinations(t *testing.T) {
	t.Parallel()
	const onlyB = `egress: [{hosts: ["./b.ns1.svc.cluster.local"]}]`
	for name, c := range map[string]struct{ rule, want string }{
		"whole":             {`http: [{route: [{destination: {host: c.ns2.svc.cluster.local}}]}]`, " c.ns2@ns2:80,9080"},
		"port":              {`http: [{route: [{destination: {host: c.ns2.svc.cluster.local, port: {number: 9080}}}]}]`, " c.ns2@ns2:9080"},
		"unknown port":      {`http: [{route: [{destination: {host: c.ns2.svc.cluster.local, port: {number: 1}}}]}]`, ""},
		"mirror":            {`http: [{mirror: {host: a}}]`, " a.ns1@ns1:80,9080"},
		"mirrors":           {`http: [{mirrors: [{destination: {host: a, port: {number: 80}}}]}]`, " a.ns1@ns1:80"},
		"tcp and tls":       {`{tcp: [{route: [{destination: {host: a}}]}], tls: [{route: [{destination: {host: x.ext.com}}]}]}`, " a.ns1@ns1:80,9080 x.ext.com@ns3:443"},
		"for another":       {`http: [{match: [{sourceNamespace: ns9}, {port: 80}], route: [{destination: {host: a}}]}]`, ""},
		"for us as well":    {`http: [{match: [{sourceNamespace: ns9}, {sourceNamespace: ns1}], route: [{destination: {host: a}}]}]`, " a.ns1@ns1:80,9080"},
		"kubernetes before": {`http: [{route: [{destination: {host: d.ns4.svc.cluster.local}}]}]`, " d.ns4@ns4:80"},
		"invisible":         {`http: [{route: [{destination: {host: secret.ns2.svc.cluster.local}}]}]`, ""},
		"explicit stays":    {`http: [{route: [{destination: {host: b}}]}]`, ""},
	} {
		w := sidecarWorld(
			t, object(t, model.KindSidecar, "ns1/s", 1, onlyB), service("ns2/secret", 1, ".", 80),
			service("ns4/d", 9, "", 80), entry(t, "ns3/d", 1, "d.ns4.svc.cluster.local", "", 81),
			object(t, model.KindVirtualService, "ns1/v", 1, "hosts: [b]"),
		)
		v := object(t, model.KindVirtualService, "ns1/v", 1, c.rule)
		spec, _ := v.Spec.(*networking.VirtualService)
		spec.Hosts = []string{"b"}
		w.apply(v)
		s := w.scope("ns1", nil)
		if got := services(s.Services); got != "b.ns1@ns1:80"+c.want {
			t.Errorf("%s: %s\nwant b.ns1@ns1:80%s", name, got, c.want)
		}
		if got := services(s.Listeners[0].Services); got != "b.ns1@ns1:80" {
			t.Errorf("%s: listener has %s", name, got)
		}
	}
}

func TestSidecarSelection(t *testing.T) {
	t.Parallel()
	w := newWorld(
		object(t, model.KindSidecar, "ns1/plain", 1, `{}`),
		object(t, model.KindSidecar, "ns1/for-a", 2, `{workloadSelector: {labels: {app: a}}}`),
		object(t, model.KindSidecar, "ns3/for-a", 1, `{workloadSelector: {labels: {app: a}}}`),
		object(t, model.KindSidecar, "istio-system/select", 1, `{workloadSelector: {labels: {app: a}}}`),
		object(t, model.KindSidecar, "istio-system/newer", 3, `{}`),
		object(t, model.KindSidecar, "istio-system/older", 2, `{}`),
	)
	r := model.NewReader(w.Current(), nil)
	a := map[string]string{"app": "a"}
	for _, c := range []struct {
		namespace string
		labels    map[string]string
		typ       Type
		want      string
	}{
		{"ns1", a, Sidecar, "ns1/for-a"},
		{"ns1", nil, Sidecar, "ns1/plain"},
		{"ns2", a, Sidecar, "istio-system/older"},
		{"ns3", a, Sidecar, "ns3/for-a"},
		{"ns3", nil, Sidecar, "istio-system/older"},
		{"istio-system", a, Sidecar, "istio-system/select"},
		{"istio-system", nil, Sidecar, "istio-system/older"},
		{"ns1", a, Router, ""},
		{"ns1", a, Waypoint, ""},
	} {
		got := ""
		if s := SelectSidecar(r, c.namespace, c.labels, c.typ); s != nil {
			got = s.Row()
		}
		if got != c.want {
			t.Errorf("%s %s %v: %q, want %q", c.typ, c.namespace, c.labels, got, c.want)
		}
	}
}

func TestRootSidecarCountsInTheProxysNamespace(t *testing.T) {
	t.Parallel()
	w := sidecarWorld(t, service("istio-system/istiod", 9, "", 15012), object(t, model.KindSidecar, "istio-system/default", 1, `
egress: [{hosts: ["./*", "istio-system/*"]}]
outboundTrafficPolicy: {mode: REGISTRY_ONLY}
`))
	s := w.scope("ns2", nil)
	if got, want := services(s.Services), "c.ns2@ns2:80,9080 istiod.istio-system@istio-system:15012"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if s.OutboundPolicy.GetMode() != networking.OutboundTrafficPolicy_REGISTRY_ONLY {
		t.Errorf("policy %v", s.OutboundPolicy)
	}
	if router := NewContext(w.Current(), nil, w.graph, w.view(Router, "ns2", nil)).Scope(); len(router.Services) != 6 {
		t.Errorf("a gateway sees %s", services(router.Services))
	}
}

func TestListenerForPort(t *testing.T) {
	t.Parallel()
	w := sidecarWorld(t, object(t, model.KindSidecar, "ns1/s", 1, `
egress:
- {port: {number: 9080, protocol: HTTP, name: h}, hosts: ["./*"]}
- {hosts: ["*/*"]}
`))
	c, _ := w.context("ns1", nil)
	s := c.Scope()
	for port, want := range map[uint32]int{9080: 0, 80: 1, 0: 1} {
		if s.ListenerForPort(port) != s.Listeners[want] {
			t.Errorf("port %d is served by another listener than %d", port, want)
		}
		if spec, ok := c.EgressSpec(port); !ok || spec != s.Listeners[want].Spec {
			t.Errorf("port %d: EgressSpec gives %v", port, spec)
		}
	}
}

func TestScopeIsCutOff(t *testing.T) {
	t.Parallel()
	w := sidecarWorld(t, object(t, model.KindSidecar, "ns1/s", 1, `egress: [{hosts: ["./*"]}]`))
	before := w.scope("ns1", nil)
	if again := w.scope("ns1", map[string]string{"app": "other"}); again != before {
		t.Error("two proxies of one namespace have two scopes")
	}
	for name, o := range map[string]*model.Object{
		"a service that is not imported":    service("ns2/new", 8, "", 80),
		"a rule that is not imported":       object(t, model.KindVirtualService, "ns2/v", 1, `hosts: [c]`),
		"a rule for gateways":               object(t, model.KindVirtualService, "ns1/g", 1, `{hosts: [a], gateways: [gw]}`),
		"a Sidecar for others":              object(t, model.KindSidecar, "ns2/s", 1, `{}`),
		"a Sidecar beside it":               object(t, model.KindSidecar, "ns1/z", 5, `{}`),
		"a rule that leads to its own host": object(t, model.KindDestinationRule, "ns1/d", 5, `host: a`),
	} {
		w.apply(o)
		if w.scope("ns1", nil) != before {
			t.Errorf("%s changed the scope", name)
		}
	}
	w.apply(service("ns1/new", 8, "", 80))
	if after := w.scope("ns1", nil); after == before || after.Find("new.ns1.svc.cluster.local") == nil {
		t.Error("an imported service did not change the scope")
	}
}

func TestVirtualServicesFor(t *testing.T) {
	t.Parallel()
	w := sidecarWorld(
		t,
		object(t, model.KindVirtualService, "ns3/all", 1, `hosts: ["*"]`),
		object(t, model.KindVirtualService, "ns3/wide", 2, `hosts: ["*.com"]`),
		object(t, model.KindVirtualService, "ns3/both", 3, `hosts: ["*.ext.com", x.ext.com]`),
		object(t, model.KindVirtualService, "ns3/exact", 2, `hosts: [x.ext.com]`),
		object(t, model.KindVirtualService, "ns1/mine", 9, `{hosts: [x.ext.com], exportTo: ["."]}`),
		object(t, model.KindVirtualService, "ns3/gateway", 1, `{hosts: [x.ext.com], gateways: [gw]}`),
	)
	c, _ := w.context("ns1", nil)
	s := c.Scope()
	for host, want := range map[string]string{
		"x.ext.com": "ns1/mine ns3/exact ns3/both ns3/wide ns3/all", "*.ext.com": "ns3/both ns3/wide ns3/all",
		"y.com": "ns3/wide ns3/all", "c.ns2.svc.cluster.local": "ns3/all",
	} {
		if got := rules(s.VirtualServicesFor(s.Listeners[0], host)); got != want {
			t.Errorf("scope, %s: %s\nwant %s", host, got, want)
		}
		if got := rules(c.VirtualServicesFor(nil, host)); got != want {
			t.Errorf("context, %s: %s\nwant %s", host, got, want)
		}
	}
}

func TestVirtualServicesForReadsLittle(t *testing.T) {
	t.Parallel()
	w := sidecarWorld(
		t, object(t, model.KindVirtualService, "ns1/public", 1, `hosts: [a]`),
		object(t, model.KindVirtualService, "ns1/private", 1, `{hosts: [b], exportTo: ["."]}`),
	)
	for host, want := range map[string]bool{"a": false, "b": true, "none": false} {
		c, rec := w.context("ns1", nil)
		c.VirtualServicesFor(nil, host+".ns1.svc.cluster.local")
		if got := rec.Mask().Has(PropNamespace); got != want {
			t.Errorf("%s: reads the namespace: %v", host, got)
		}
	}
}

func TestScopedServiceReadsLittle(t *testing.T) {
	t.Parallel()
	w := sidecarWorld(t, service("ns1/private", 9, ".", 80))
	for host, want := range map[string]bool{"a": false, "private": true, "none": false} {
		c, rec := w.context("ns1", nil)
		if s := c.ScopedService(host + ".ns1.svc.cluster.local"); (s != nil) != (host != "none") {
			t.Errorf("%s: found %v", host, s)
		}
		if got := rec.Mask().Has(PropNamespace); got != want {
			t.Errorf("%s: reads the namespace: %v", host, got)
		}
	}
}

// BenchmarkScope computes scopes from nothing at 1,000 services in 20 namespaces.
func BenchmarkScope(b *testing.B) {
	var objects []*model.Object
	for i := range 1000 {
		objects = append(objects, service(fmt.Sprintf("ns%d/svc%d", i%20, i), i, "", 80, 9000))
		if i%10 == 0 {
			objects = append(objects, object(b, model.KindVirtualService, fmt.Sprintf("ns%d/v%d", i%20, i), i,
				fmt.Sprintf(`{hosts: [svc%d], http: [{route: [{destination: {host: svc%d}}]}]}`, i, i)))
		}
	}
	objects = append(objects, object(b, model.KindSidecar, "ns1/s", 1, `egress: [{hosts: ["./*", "*/*.ns2.svc.cluster.local"]}]`))
	w := newWorld(objects...)
	r := model.NewReader(w.Current(), nil)
	for _, id := range []ScopeID{{Namespace: "ns0"}, {Namespace: "ns1", Sidecar: "ns1/s"}} {
		b.Run("sidecar="+id.Sidecar, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				buildScope(r, id)
			}
		})
	}
}
