package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	typeapi "istio.io/api/type/v1beta1"

	"github.com/mizzen-mesh/mizzen/pkg/cell"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func drawnNamespaces() []string { return []string{"a", "b", "istio-system"} }

func drawnHosts() []string {
	return []string{"s", "s.a.svc.cluster.local", "*.a.svc.cluster.local", "ext.com", "*.com", "*"}
}

// drawEvent draws a change of one of few objects, so that histories meet the same ones again and again.
func drawEvent(t *rapid.T) Event {
	kind := rapid.SampledFrom([]Kind{
		KindVirtualService, KindVirtualService, KindDestinationRule, KindDestinationRule, KindSidecar, KindPeerAuthentication,
	}).Draw(t, "kind")
	key := ObjectKey{
		kind, rapid.SampledFrom(drawnNamespaces()).Draw(t, "namespace"), rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"),
	}
	if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		return Event{Key: key}
	}
	o := &Object{ObjectKey: key, Created: time.Unix(int64(rapid.IntRange(1, 3).Draw(t, "age")), 0).UTC()}
	if rapid.Bool().Draw(t, "labelled") {
		o.Labels = map[string]string{"plain": rapid.SampledFrom([]string{"1", "2"}).Draw(t, "label")}
	}
	switch kind {
	case KindVirtualService:
		o.Spec = drawVirtualService(t)
	case KindDestinationRule:
		o.Spec = drawDestinationRule(t)
	case KindSidecar:
		o.Spec = drawSidecar(t)
	default:
		o.Spec = drawPeerAuthentication(t)
	}
	return Event{Key: key, Object: o}
}

func drawExportTo(t *rapid.T) []string {
	return rapid.SampledFrom([][]string{nil, nil, {"."}, {"*"}, {"a"}, {"a", "b"}, {"~"}}).Draw(t, "exportTo")
}

func drawLabels(t *rapid.T) map[string]string {
	return rapid.SampledFrom([]map[string]string{nil, {}, {"app": "1"}, {"app": "2", "tier": "1"}}).Draw(t, "labels")
}

func drawVirtualService(t *rapid.T) *networking.VirtualService {
	v := &networking.VirtualService{
		Hosts:    rapid.SliceOfN(rapid.SampledFrom(drawnHosts()), 0, 2).Draw(t, "hosts"),
		Gateways: rapid.SampledFrom([][]string{nil, {"gw"}, {"mesh", "b/gw"}}).Draw(t, "gateways"),
		ExportTo: drawExportTo(t),
	}
	for range rapid.IntRange(0, 2).Draw(t, "routes") {
		r := &networking.HTTPRoute{Name: rapid.SampledFrom([]string{"", "p", "q"}).Draw(t, "route")}
		if p := rapid.SampledFrom([]string{"", "/a", "/a/b", "/c"}).Draw(t, "prefix"); p != "" {
			r.Match = []*networking.HTTPMatchRequest{{
				Uri:          &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: p}},
				SourceLabels: drawLabels(t),
			}}
		}
		if rapid.Bool().Draw(t, "delegates") {
			r.Delegate = &networking.Delegate{
				Name:      rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "delegate"),
				Namespace: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "delegate's namespace"),
			}
		} else {
			r.Route = []*networking.HTTPRouteDestination{{Destination: &networking.Destination{Host: "s"}}}
		}
		v.Http = append(v.Http, r)
	}
	return v
}

func drawDestinationRule(t *rapid.T) *networking.DestinationRule {
	d := &networking.DestinationRule{
		Host: rapid.SampledFrom(drawnHosts()).Draw(t, "host"), ExportTo: drawExportTo(t),
	}
	if l := drawLabels(t); l != nil {
		d.WorkloadSelector = &typeapi.WorkloadSelector{MatchLabels: l}
	}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"v1", "v2"}), 0, 2).Draw(t, "subsets") {
		d.Subsets = append(d.Subsets, &networking.Subset{Name: name, Labels: drawLabels(t)})
	}
	if p := rapid.SampledFrom([]string{"", "k1", "k2=v"}).Draw(t, "priority"); p != "" {
		d.TrafficPolicy = &networking.TrafficPolicy{LoadBalancer: &networking.LoadBalancerSettings{
			LocalityLbSetting: &networking.LocalityLoadBalancerSetting{FailoverPriority: []string{p}},
		}}
	}
	return d
}

func drawSidecar(t *rapid.T) *networking.Sidecar {
	s := &networking.Sidecar{Egress: []*networking.IstioEgressListener{{
		Hosts: []string{rapid.SampledFrom([]string{"./*", "*/*", "a/*"}).Draw(t, "egress")},
	}}}
	if l := drawLabels(t); l != nil {
		s.WorkloadSelector = &networking.WorkloadSelector{Labels: l}
	}
	return s
}

func drawPeerAuthentication(t *rapid.T) *security.PeerAuthentication {
	return &security.PeerAuthentication{
		Selector: &typeapi.WorkloadSelector{MatchLabels: drawLabels(t)},
		Mtls: &security.PeerAuthentication_MutualTLS{
			Mode: security.PeerAuthentication_MutualTLS_Mode(rapid.IntRange(0, 3).Draw(t, "mode")),
		},
	}
}

func drawMesh(t *rapid.T) *Mesh {
	m := testMesh()
	list := rapid.SampledFrom([][]string{nil, {"*"}, {"."}})
	m.DefaultVirtualServiceExportTo = list.Draw(t, "default of virtual services")
	m.DefaultDestinationRuleExportTo = list.Draw(t, "default of destination rules")
	if p := rapid.SampledFrom([]string{"", "m1", "app"}).Draw(t, "mesh priority"); p != "" {
		m.Config = &mesh.MeshConfig{
			RootNamespace:     "istio-system",
			LocalityLbSetting: &networking.LocalityLoadBalancerSetting{FailoverPriority: []string{p}},
		}
	}
	return m
}

// questions are all that the readers of routing rules and policies can ask in the drawn world, by name.
func questions() map[string]func(*Reader) string {
	q := map[string]func(*Reader) string{"tested labels": func(r *Reader) string {
		return fmt.Sprint(slices.Sorted(maps.Keys(r.TestedLabels())))
	}}
	for _, ns := range append(drawnNamespaces(), "stranger") {
		q["visible "+ns] = func(r *Reader) string {
			exported, public := r.VisibleVirtualServices(ns)
			return rulesText(exported) + "\npublic\n" + rulesText(public)
		}
		q["sidecars "+ns] = func(r *Reader) string {
			return textOf(r.Sidecars(ns), func(s *Sidecar) string { return s.Row() + fmt.Sprint(s.Selector) + wireOf(s.Spec) })
		}
		q["policies "+ns] = func(r *Reader) string {
			return textOf(r.PeerAuthentications(ns), func(p *PeerAuthentication) string { return p.Row() + wireOf(p.Spec) })
		}
		for _, name := range []string{"x", "y", "z"} {
			q["rule "+ns+"/"+name] = func(r *Reader) string {
				if v := r.VirtualService(ns, name); v != nil {
					return rulesText([]*VirtualService{v})
				}
				return "none"
			}
		}
	}
	for _, host := range append(drawnHosts(), "s.b.svc.cluster.local", "x.com", "org") {
		q["destination rules "+host] = func(r *Reader) string { return textOf(r.DestinationRules(host), ruleText) }
		q["virtual services "+host] = func(r *Reader) string { return rulesText(r.VirtualServicesOfHost(host)) }
	}
	return q
}

func wireOf(m proto.Message) string {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func textOf[T any](list []T, text func(T) string) string {
	var out []string
	for _, v := range list {
		out = append(out, text(v))
	}
	return strings.Join(out, "\n")
}

func rulesText(list []*VirtualService) string {
	return textOf(list, func(v *VirtualService) string {
		return fmt.Sprint(v.Row(), v.Created, v.Hosts, v.Gateways, v.ExportTo, v.Delegates, wireOf(v.Spec))
	})
}

func ruleText(d *DestinationRule) string {
	return fmt.Sprint(d.Namespace, d.Host, picked(d), d.ExportTo, d.Private, d.Selector == nil, d.Selector, d.Pools, wireOf(d.Spec))
}

// TestConfigurationIncrementalEqualsFromScratch applies histories one by one and asks everything after each step: the
// answers must be those of a builder that got the last state at once, and a cell made of an answer must be reported as
// changed whenever the answer changes.
func TestConfigurationIncrementalEqualsFromScratch(t *testing.T) {
	t.Parallel()
	asked := questions()
	rapid.Check(t, func(t *rapid.T) {
		m := testMesh()
		b := NewBuilder(DefaultSettings(), m)
		g := cell.New()
		g.Define(1, func(rec *cell.Recorder, id cell.ID, _ cell.Env) any {
			name, _ := id.Arg.(string)
			return asked[name](NewReader(b.Current(), rec))
		}, nil)
		world := map[ObjectKey]*Object{}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 4).Draw(t, "events")
			var change *Mesh
			if rapid.IntRange(0, 9).Draw(t, "mesh") == 0 {
				change = drawMesh(t)
				m = change
			}
			_, keys := b.Apply(events, change)
			for _, e := range events {
				if world[e.Key] = e.Object; e.Object == nil {
					delete(world, e.Key)
				}
			}
			g.Invalidate(keys)
			scratch := NewBuilder(DefaultSettings(), m)
			scratch.Apply(present(slices.Collect(maps.Values(world))...), nil)
			for name, ask := range asked {
				want := ask(NewReader(scratch.Current(), nil))
				if got := ask(NewReader(b.Current(), nil)); got != want {
					t.Fatalf("%s: incremental\n%q\nfrom scratch\n%q", name, got, want)
				}
				if got := g.Get(nil, cell.ID{Kind: 1, Arg: name}, world0{}).Value(); got != want {
					t.Fatalf("%s: changed without a changed key\n%q\nnow\n%q", name, got, want)
				}
			}
		}
	})
}

// world0 is an environment without properties.
type world0 struct{}

func (world0) Project(cell.Mask) string { return "" }
