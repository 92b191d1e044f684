package model

import (
	"slices"
	"testing"

	networking "istio.io/api/networking/v1alpha3"
)

func TestVirtualServiceNames(t *testing.T) {
	t.Parallel()
	o := istioObject(t, KindVirtualService, "ns1/v", 1, `
hosts: [Reviews, "*.com", 1.2.3.4]
gateways: [mesh, gw, ns2/gw, ./own, old.ns3.svc.cluster.local]
http:
- match: [{gateways: [gw]}]
  route: [{destination: {host: a}}, {destination: {host: b.ns2.svc.cluster.local}}]
  mirror: {host: m}
  mirrors: [{destination: {host: q}}]
tcp: [{match: [{gateways: [gw]}], route: [{destination: {host: t}}]}]
tls: [{match: [{sniHosts: [short], gateways: [gw]}], route: [{destination: {host: u}}]}]
`)
	r := readerOf(t, o)
	v := r.VirtualService("ns1", "v")
	if want := []string{"reviews.ns1.svc.cluster.local", "*.com", "1.2.3.4"}; !slices.Equal(v.Hosts, want) {
		t.Errorf("hosts %v, want %v", v.Hosts, want)
	}
	if want := []string{"mesh", "ns1/gw", "ns2/gw", "ns1/own", "ns3/old"}; !slices.Equal(v.Gateways, want) {
		t.Errorf("gateways %v, want %v", v.Gateways, want)
	}
	h := v.Spec.Http[0]
	got := []string{
		h.Match[0].Gateways[0], h.Route[0].Destination.Host, h.Route[1].Destination.Host, h.Mirror.Host,
		h.Mirrors[0].Destination.Host, v.Spec.Tcp[0].Match[0].Gateways[0], v.Spec.Tcp[0].Route[0].Destination.Host,
		v.Spec.Tls[0].Match[0].Gateways[0], v.Spec.Tls[0].Match[0].SniHosts[0], v.Spec.Tls[0].Route[0].Destination.Host,
	}
	want := []string{
		"ns1/gw", "a.ns1.svc.cluster.local", "b.ns2.svc.cluster.local", "m.ns1.svc.cluster.local",
		"q.ns1.svc.cluster.local", "ns1/gw", "t.ns1.svc.cluster.local", "ns1/gw", "short", "u.ns1.svc.cluster.local",
	}
	if !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
	if written, _ := o.Spec.(*networking.VirtualService); written.Hosts[0] != "Reviews" || written.Http[0].Mirror.Host != "m" {
		t.Error("the source's object was modified")
	}
}

func TestVirtualServiceGateways(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string][2]bool{
		"hosts: [a.com]": {true, false}, "{hosts: [a.com], gateways: [mesh, ns1/gw]}": {true, true},
		"{hosts: [a.com], gateways: [gw]}": {false, true},
	} {
		v := readerOf(t, istioObject(t, KindVirtualService, "ns1/v", 1, spec)).VirtualService("ns1", "v")
		if got := [2]bool{v.Bound(MeshGateway), v.Bound("ns1/gw")}; got != want {
			t.Errorf("%s: bound %v, want %v", spec, got, want)
		}
	}
}

func TestVisibleVirtualServices(t *testing.T) {
	t.Parallel()
	r := readerOf(
		t,
		istioObject(t, KindVirtualService, "ns1/new-private", 9, `{hosts: [a.com], exportTo: ["."]}`),
		istioObject(t, KindVirtualService, "ns1/old-private", 3, `{hosts: [a.com], exportTo: [ns1]}`),
		istioObject(t, KindVirtualService, "ns2/exported", 1, `{hosts: [a.com], exportTo: [ns1, ns3]}`),
		istioObject(t, KindVirtualService, "ns2/public-b", 2, `{hosts: [a.com]}`),
		istioObject(t, KindVirtualService, "ns1/public-a", 2, `{hosts: [a.com], exportTo: [ns9, "*"]}`),
		istioObject(t, KindVirtualService, "ns1/hidden", 1, `{hosts: [a.com], exportTo: ["~"]}`),
		istioObject(t, KindVirtualService, "ns1/delegate", 1, `{http: [{route: [{destination: {host: a}}]}]}`),
	)
	exported, public := r.VisibleVirtualServices("ns1")
	if got := rowsOf(exported); got != "ns1/old-private ns1/new-private ns2/exported" {
		t.Errorf("exported to ns1: %s", got)
	}
	if got := rowsOf(public); got != "ns1/public-a ns2/public-b" {
		t.Errorf("public: %s", got)
	}
	if exported, _ = r.VisibleVirtualServices("ns2"); len(exported) != 0 {
		t.Errorf("exported to ns2: %s", rowsOf(exported))
	}
}

func TestVirtualServicesOfHost(t *testing.T) {
	t.Parallel()
	r := readerOf(
		t,
		istioObject(t, KindVirtualService, "ns1/all", 1, `{hosts: ["*"]}`),
		istioObject(t, KindVirtualService, "ns1/wide", 2, `{hosts: ["*.com"]}`),
		istioObject(t, KindVirtualService, "ns1/narrow", 3, `{hosts: ["*.a.com"]}`),
		istioObject(t, KindVirtualService, "ns1/newer", 5, `{hosts: [x.a.com, x.a.com]}`),
		istioObject(t, KindVirtualService, "ns1/older", 4, `{hosts: [x.a.com, y.org]}`),
	)
	for host, want := range map[string]string{
		"x.a.com": "ns1/older ns1/newer ns1/narrow ns1/wide ns1/all", "b.com": "ns1/wide ns1/all",
		"*.com": "ns1/wide ns1/all", "y.org": "ns1/older ns1/all", "z.org": "ns1/all",
	} {
		if got := rowsOf(r.VirtualServicesOfHost(host)); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

const rootSpec = `
hosts: [a.com]
http:
- name: r
  match: [{uri: {prefix: /a}}]
  timeout: 3s
  headers: {request: {add: {x: "1"}}}
  delegate: {name: d, namespace: ns2}
- name: last
  route: [{destination: {host: a}}]
`

func TestDelegateMerge(t *testing.T) {
	t.Parallel()
	r := readerOf(
		t,
		istioObject(t, KindVirtualService, "ns1/root", 1, rootSpec),
		istioObject(t, KindVirtualService, "ns2/d", 1, `
http:
- name: d
  match: [{uri: {prefix: /a/b}}]
  route: [{destination: {host: b}}]
- name: elsewhere
  match: [{uri: {prefix: /c}}]
  route: [{destination: {host: c}}]
- timeout: 5s
  route: [{destination: {host: e}}]
- name: deeper
  delegate: {name: x}
`),
	)
	v := r.VirtualService("ns1", "root")
	var names []string
	for _, h := range v.Spec.Http {
		names = append(names, h.Name)
	}
	if want := []string{"r-d", "r", "last"}; !slices.Equal(names, want) {
		t.Fatalf("routes %v, want %v", names, want)
	}
	first, second := v.Spec.Http[0], v.Spec.Http[1]
	if got := first.Match[0].Uri.GetPrefix(); len(first.Match) != 1 || got != "/a/b" {
		t.Errorf("merged match %v", first.Match)
	}
	if first.Timeout.GetSeconds() != 3 || first.Headers.GetRequest().GetAdd()["x"] != "1" {
		t.Errorf("not inherited: %v", first)
	}
	if first.Route[0].Destination.Host != "b.ns2.svc.cluster.local" || first.Delegate != nil {
		t.Errorf("destination %v", first)
	}
	if second.Timeout.GetSeconds() != 5 || second.Match[0].Uri.GetPrefix() != "/a" {
		t.Errorf("second route %v", second)
	}
	if len(v.Delegates) != 1 || v.Delegates[0].Row() != "ns2/d" {
		t.Errorf("delegates %v", v.Delegates)
	}
}

func TestDelegateThatCannotBeUsedTakesItsRouteAlong(t *testing.T) {
	t.Parallel()
	for name, delegate := range map[string]*Object{
		"missing":      nil,
		"not exported": istioObject(t, KindVirtualService, "ns2/d", 1, `{exportTo: [ns2], http: [{route: [{destination: {host: b}}]}]}`),
		"has hosts":    istioObject(t, KindVirtualService, "ns2/d", 1, `{hosts: [b.com], http: [{route: [{destination: {host: b}}]}]}`),
	} {
		objects := []*Object{istioObject(t, KindVirtualService, "ns1/root", 1, rootSpec)}
		if delegate != nil {
			objects = append(objects, delegate)
		}
		v := readerOf(t, objects...).VirtualService("ns1", "root")
		if len(v.Spec.Http) != 1 || v.Spec.Http[0].Name != "last" || len(v.Delegates) != 0 {
			t.Errorf("%s: routes %v", name, v.Spec.Http)
		}
	}
}

func TestDelegateChangeReachesItsRoots(t *testing.T) {
	t.Parallel()
	b := NewBuilder(DefaultSettings(), testMesh())
	b.Apply(present(
		istioObject(t, KindVirtualService, "ns1/root", 1, rootSpec),
		istioObject(t, KindVirtualService, "ns3/other", 1, `{hosts: [other.com]}`),
	), nil)
	d := istioObject(t, KindVirtualService, "ns2/d", 1, `{http: [{name: d, route: [{destination: {host: b}}]}]}`)
	pc, keys := b.Apply(present(d), nil)
	if n := len(NewReader(pc, nil).VirtualService("ns1", "root").Spec.Http); n != 2 {
		t.Errorf("%d routes after the delegate came", n)
	}
	for _, k := range []string{"ns1/root", "ns2/d"} {
		if !hasKey(keys, TableVirtualService, k) {
			t.Errorf("%s not reported: %v", k, keys)
		}
	}
	if !hasKey(keys, TableVisibleVS, "*") || !hasKey(keys, TableVSHost, "a.com") || hasKey(keys, TableVSHost, "other.com") {
		t.Errorf("keys %v", keys)
	}
	if pc, _ = b.Apply([]Event{{Key: d.ObjectKey}}, nil); len(NewReader(pc, nil).VirtualService("ns1", "root").Spec.Http) != 1 {
		t.Error("the delegate's routes stay after it went")
	}
}

func TestMatchConflicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		root, delegate string
		conflict       bool
	}{
		{`{uri: {prefix: /a}}`, `{uri: {prefix: /a/b}}`, false},
		{`{uri: {prefix: /a}}`, `{uri: {exact: /a/b}}`, false},
		{`{uri: {prefix: /a}}`, `{uri: {prefix: /b}}`, true},
		{`{uri: {exact: /a}}`, `{uri: {prefix: /a}}`, true},
		{`{uri: {exact: /a}}`, `{uri: {exact: /a}}`, false},
		{`{uri: {regex: /a}}`, `{uri: {exact: /a}}`, true},
		{`{uri: {prefix: /a}}`, `{uri: {regex: /a.*}}`, true},
		{`{uri: {regex: /a}}`, `{method: {exact: GET}}`, false},
		{`{method: {exact: GET}}`, `{method: {exact: PUT}}`, true},
		{`{headers: {h: {exact: a}}}`, `{headers: {h: {exact: b}}}`, true},
		{`{headers: {h: {exact: a}}}`, `{headers: {g: {exact: b}}}`, false},
		{`{withoutHeaders: {h: {exact: a}}}`, `{withoutHeaders: {h: {exact: b}}}`, true},
		{`{queryParams: {q: {exact: a}}}`, `{queryParams: {q: {exact: b}}}`, true},
		{`{port: 80}`, `{port: 81}`, true},
		{`{port: 80}`, `{}`, false},
		{`{sourceNamespace: a}`, `{sourceNamespace: b}`, true},
		{`{sourceLabels: {a: b}}`, `{sourceLabels: {a: c}}`, true},
		{`{sourceLabels: {a: b}}`, `{sourceLabels: {b: c}}`, false},
		{`{gateways: [ns1/a, ns1/b]}`, `{gateways: [ns1/b]}`, false},
		{`{gateways: [ns1/a]}`, `{gateways: [ns1/b]}`, true},
		{`{uri: {prefix: /a}, ignoreUriCase: true}`, `{uri: {prefix: /a}}`, true},
	} {
		read := func(m string) *networking.HTTPMatchRequest {
			o := istioObject(t, KindVirtualService, "n/n", 1, `{http: [{match: [`+m+`]}]}`)
			spec, _ := o.Spec.(*networking.VirtualService)
			return spec.Http[0].Match[0]
		}
		if got := matchesConflict(read(c.root), read(c.delegate)); got != c.conflict {
			t.Errorf("root %s, delegate %s: conflict %v", c.root, c.delegate, got)
		}
	}
}

func TestSameContentChangesNothing(t *testing.T) {
	t.Parallel()
	b := NewBuilder(DefaultSettings(), testMesh())
	b.Apply(present(istioObject(t, KindVirtualService, "ns1/root", 1, rootSpec)), nil)
	again := istioObject(t, KindVirtualService, "ns1/root", 1, rootSpec)
	again.Labels = map[string]string{"helm.sh/chart": "x"}
	if _, keys := b.Apply(present(again), nil); len(keys) != 0 {
		t.Errorf("keys %v", keys)
	}
	again = istioObject(t, KindVirtualService, "ns1/root", 1, rootSpec)
	again.Labels = map[string]string{"istio.io/x": "y"}
	if _, keys := b.Apply(present(again), nil); !hasKey(keys, TableVirtualService, "ns1/root") {
		t.Errorf("keys %v", keys)
	}
}
