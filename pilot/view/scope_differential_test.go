package view

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func drawnHosts() []string {
	return []string{"s", "s.a.svc.cluster.local", "s.b.svc.cluster.local", "*.a.svc.cluster.local", "x.ext.com", "*.com", "*"}
}

func drawEvent(t *rapid.T) model.Event {
	kind := rapid.SampledFrom([]model.Kind{
		model.KindVirtualService, model.KindVirtualService, model.KindSidecar, model.KindService, model.KindServiceEntry,
	}).Draw(t, "kind")
	key := model.ObjectKey{
		Kind: kind, Namespace: rapid.SampledFrom([]string{"a", "b", "istio-system"}).Draw(t, "namespace"),
		Name: rapid.SampledFrom([]string{"s", "x", "y"}).Draw(t, "name"),
	}
	if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		return model.Event{Key: key}
	}
	age := rapid.IntRange(1, 3).Draw(t, "age")
	exportTo := rapid.SampledFrom([]string{"", "", "*", ".", "a", "~"}).Draw(t, "exportTo")
	o := &model.Object{ObjectKey: key}
	switch kind {
	case model.KindVirtualService:
		o.Spec = drawVirtualService(t, exportTo)
		if rapid.IntRange(0, 3).Draw(t, "gateway api") == 0 {
			o.Annotations = map[string]string{"internal.istio.io/route-semantics": "gateway"}
		}
	case model.KindSidecar:
		o.Spec = drawSidecar(t)
	case model.KindService:
		o = service(key.Row(), age, exportTo, rapid.SampledFrom([][]int32{{80}, {80, 9080}}).Draw(t, "ports")...)
	default:
		o.Spec = drawEntry(t, exportTo)
	}
	o.Created = time.Unix(int64(age), 0).UTC()
	if s, ok := o.Spec.(*corev1.Service); ok {
		s.CreationTimestamp.Time = o.Created
	}
	return model.Event{Key: key, Object: o}
}

func drawVirtualService(t *rapid.T, exportTo string) *networking.VirtualService {
	v := &networking.VirtualService{
		Hosts:    rapid.SliceOfN(rapid.SampledFrom(drawnHosts()), 0, 2).Draw(t, "hosts"),
		Gateways: rapid.SampledFrom([][]string{nil, nil, {"gw"}}).Draw(t, "gateways"),
	}
	if exportTo != "" {
		v.ExportTo = []string{exportTo}
	}
	d := &networking.Destination{Host: rapid.SampledFrom(drawnHosts()[:3]).Draw(t, "destination")}
	if rapid.Bool().Draw(t, "with port") {
		d.Port = &networking.PortSelector{Number: 9080}
	}
	if rapid.Bool().Draw(t, "tcp") {
		v.Tcp = []*networking.TCPRoute{{Route: []*networking.RouteDestination{{Destination: d}}}}
		return v
	}
	v.Http = []*networking.HTTPRoute{{Route: []*networking.HTTPRouteDestination{{Destination: d}}}}
	return v
}

func drawSidecar(t *rapid.T) *networking.Sidecar {
	s := &networking.Sidecar{}
	if rapid.Bool().Draw(t, "selects") {
		s.WorkloadSelector = &networking.WorkloadSelector{Labels: map[string]string{"app": "1"}}
	}
	hosts := rapid.SampledFrom([]string{"./*", "*/*", "a/*", "*/*.com", "*/x.ext.com", "~b/*", "./s.a.svc.cluster.local"})
	for i := range rapid.IntRange(0, 2).Draw(t, "listeners") {
		l := &networking.IstioEgressListener{Hosts: rapid.SliceOfN(hosts, 1, 3).Draw(t, "egress")}
		if i == 0 && rapid.Bool().Draw(t, "own port") {
			l.Port = &networking.SidecarPort{Number: 9080, Protocol: "HTTP", Name: "http"}
		}
		s.Egress = append(s.Egress, l)
	}
	return s
}

func drawEntry(t *rapid.T, exportTo string) *networking.ServiceEntry {
	e := &networking.ServiceEntry{
		Hosts:      []string{rapid.SampledFrom([]string{"x.ext.com", "*.ext.com", "s.a.svc.cluster.local"}).Draw(t, "entry host")},
		Ports:      []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
		Resolution: networking.ServiceEntry_STATIC,
	}
	if exportTo != "" {
		e.ExportTo = []string{exportTo}
	}
	return e
}

// scopeText writes all that a scope holds.
func scopeText(s *Scope) string {
	text := fmt.Sprintln(s.Namespace, s.Sidecar != nil, s.OutboundPolicy.GetMode(), services(s.Services))
	for _, l := range s.Listeners {
		text += fmt.Sprintln(l.Spec.GetPort().GetNumber(), l.Spec.GetHosts(), services(l.Services), rules(l.VirtualServices))
		for _, v := range l.VirtualServices {
			b, err := proto.MarshalOptions{Deterministic: true}.Marshal(v.Spec)
			text += fmt.Sprintf("%q %v\n", b, err)
		}
	}
	return text
}

// TestScopeIncrementalEqualsFromScratch follows histories with the scopes of some proxies: they are those that the last
// state alone gives, and the narrow lookup of rules agrees with the scope's.
func TestScopeIncrementalEqualsFromScratch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		known := map[model.ObjectKey]*model.Object{}
		for range rapid.IntRange(1, 10).Draw(t, "steps") {
			events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 4).Draw(t, "events")
			_, keys := w.Apply(events, nil)
			w.graph.Invalidate(keys)
			for _, e := range events {
				if known[e.Key] = e.Object; e.Object == nil {
					delete(known, e.Key)
				}
			}
			scratch := newWorld(slices.Collect(maps.Values(known))...)
			for _, ns := range []string{"a", "b", "istio-system", "stranger"} {
				for _, labels := range []map[string]string{nil, {"app": "1"}} {
					if got, want := scopeText(w.scope(ns, labels)), scopeText(scratch.scope(ns, labels)); got != want {
						t.Fatalf("%s %v: incremental\n%s\nfrom scratch\n%s", ns, labels, got, want)
					}
					c, _ := w.context(ns, labels)
					checkLookups(t, c)
					checkShared(t, c)
				}
			}
		}
	})
}

// checkShared compares the shared scope with the proxy's own.
func checkShared(t *rapid.T, c *Context) {
	own, id := c.Scope(), c.SharedScopeID()
	shared := *c.ScopeOf(id)
	shared.Namespace = own.Namespace
	if got, want := scopeText(&shared), scopeText(own); got != want {
		t.Fatalf("%s shares the scope of %v\n%s\nits own is\n%s", own.Namespace, id, got, want)
	}
	transport := c.TransportScopeOf(id)
	if got, want := services(transport.Services), services(own.Services); got != want {
		t.Fatalf("without HTTP rules: %s\nwith them: %s", got, want)
	}
	for i, l := range transport.Listeners {
		want := slices.DeleteFunc(slices.Clone(own.Listeners[i].VirtualServices), func(v *model.VirtualService) bool {
			return len(v.Spec.GetTcp())+len(v.Spec.GetTls()) == 0
		})
		if l.Spec != own.Listeners[i].Spec || rules(l.VirtualServices) != rules(want) {
			t.Fatalf("without HTTP rules: %s\nwant %s", rules(l.VirtualServices), rules(want))
		}
	}
}

func checkLookups(t *rapid.T, c *Context) {
	s := c.Scope()
	for _, l := range s.Listeners {
		for _, host := range append(drawnHosts(), "y.ext.com") {
			if got, want := rules(c.VirtualServicesFor(l.Spec, host)), rules(s.VirtualServicesFor(l, host)); got != want {
				t.Fatalf("%s in %s: the context finds %q, the scope %q", host, s.Namespace, got, want)
			}
		}
	}
	for _, x := range s.Services {
		if s.Find(x.Host) != x {
			t.Fatalf("Find(%s) gives %v", x.Host, s.Find(x.Host))
		}
	}
	for _, host := range append(drawnHosts(), "*.ext.com", "s.istio-system.svc.cluster.local") {
		got, want := c.ScopedService(host), s.Find(host)
		if (got == nil) != (want == nil) || got != nil && (got.Service != want.Service || !slices.Equal(got.Ports, want.Ports)) {
			t.Fatalf("%s in %s: the context finds %v, the scope %v", host, s.Namespace, got, want)
		}
	}
}
