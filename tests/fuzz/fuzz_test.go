package fuzz

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// slow is a bound for one object's resources that no machine's load explains.
const slow = 20 * time.Second

// target is a kind of object to draw, whole.
type target struct {
	kind  model.Kind
	empty func() proto.Message
}

func virtualService() target {
	return target{model.KindVirtualService, func() proto.Message { return &networking.VirtualService{} }}
}

func destinationRule() target {
	return target{model.KindDestinationRule, func() proto.Message { return &networking.DestinationRule{} }}
}

func serviceEntry() target {
	return target{model.KindServiceEntry, func() proto.Message { return &networking.ServiceEntry{} }}
}

func authorizationPolicy() target {
	return target{model.KindAuthorizationPolicy, func() proto.Message { return &security.AuthorizationPolicy{} }}
}

func envoyFilter() target {
	return target{model.KindEnvoyFilter, func() proto.Message { return &networking.EnvoyFilter{} }}
}

func targets() []target {
	return []target{virtualService(), destinationRule(), serviceEntry(), authorizationPolicy(), envoyFilter()}
}

// draw draws an object, and tells whether validation finds nothing wrong with it.
func (k target) draw(t *rapid.T) (o *model.Object, valid bool) {
	o = &model.Object{ObjectKey: model.ObjectKey{Kind: k.kind, Namespace: "shop", Name: "drawn"}, Spec: drawn(t, k.empty())}
	return o, rapid.SampledFrom([]bool{true, true, false}).Draw(t, "mend") && mended(o)
}

// fixed is what all drawings of one process share.
type fixed struct {
	objects []*model.Object
	mesh    *model.Mesh
	nodes   []*corev3.Node
}

func newFixed(t testing.TB) *fixed {
	t.Helper()
	mesh, err := meshconfig.Parse()
	if err != nil {
		t.Fatal(err)
	}
	f := &fixed{objects: base(t), mesh: mesh}
	for _, text := range []string{
		node("10.1.1.1", "cart-1", "shop", "cart", false), node("10.1.1.1", "cart-1", "shop", "cart", true), node("10.1.3.1", "calm-1", "quiet", "calm", true),
	} {
		raw, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		n := &corev3.Node{}
		if err := protojson.Unmarshal(raw, n); err != nil {
			t.Fatal(err)
		}
		f.nodes = append(f.nodes, n)
	}
	return f
}

// outcome is what each node gets, and what could not be made.
type outcome struct {
	resources []offline.Resources
	unbuilt   map[string]string
}

func (f *fixed) outcome(t rapid.TB, more ...*model.Object) *outcome {
	p, err := offline.Start(model.DefaultSettings(), f.mesh, append(slices.Clone(f.objects), more...))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	out := &outcome{}
	for _, n := range f.nodes {
		r, err := p.Ask(n, p.SubscriptionOf(n, nil))
		if err != nil {
			t.Fatal(err)
		}
		out.resources = append(out.resources, r)
	}
	out.unbuilt = p.Unbuilt()
	return out
}

// property is that whatever stands in one object, nothing panics or takes long, all that is sent is what Envoy takes, and
// a service that the object does not speak of keeps its cluster, endpoints and virtual host. Of an object that validation
// finds nothing wrong with, nothing is left out because Envoy would refuse it either.
func property(t *rapid.T, k target, f *fixed, before *outcome) {
	o, valid := k.draw(t)
	spec, _ := o.Spec.(proto.Message)
	start := time.Now()
	after := f.outcome(t, o)
	if d := time.Since(start); d > slow {
		t.Errorf("%v for %v", d, spec)
	}
	for unit, why := range after.unbuilt {
		if strings.Contains(why, "panicked") || valid && !strings.Contains(why, "EnvoyFilter/shop/drawn") && broken().MatchString(why) {
			t.Errorf("%s: %s\nof %s", unit, why, protojson.Format(spec))
		}
	}
	for i, all := range after.resources {
		for _, byName := range all {
			for name, r := range byName {
				if err := refusal(r.Message); err != nil {
					t.Errorf("%s %s: %v\nof %s", r.TypeURL, name, err, protojson.Format(spec))
				}
			}
		}
		if means(spec, f.nodes[i]) {
			continue
		}
		if d := harmed(before.resources[i], all); d != "" {
			t.Errorf("node %d: %s\nof %s", i, d, protojson.Format(spec))
		}
	}
}

// broken finds the words of rules of Envoy's types that a resource broke: the resource was held back, and should not have
// been made like that.
func broken() *regexp.Regexp { return regexp.MustCompile(`invalid [A-Z]\w+\.\w+: `) }

// means tells whether an object may change all that a node gets: it speaks of all hosts, shares the port, or patches what
// is for the node.
func means(spec proto.Message, n *corev3.Node) bool {
	switch s := spec.(type) {
	case *networking.VirtualService:
		return slices.Contains(s.GetHosts(), "*")
	case *networking.DestinationRule:
		return s.GetHost() == "*"
	case *networking.ServiceEntry:
		// Whose listener a port without an address is depends on all of its services.
		return slices.Contains(s.GetHosts(), "*") || slices.ContainsFunc(s.GetPorts(), func(p *networking.ServicePort) bool { return p.GetNumber() == 80 })
	case *networking.EnvoyFilter:
		return n.GetMetadata().GetFields()["NAMESPACE"].GetStringValue() == "shop"
	}
	return false
}

// harmed tells how calm differs, "" if it does not.
func harmed(before, after offline.Resources) string {
	const cluster = "outbound|80||calm.quiet.svc.cluster.local"
	for _, url := range []string{translate.ClusterType, translate.EndpointType} {
		if b, a := before[url][cluster], after[url][cluster]; b == nil || a == nil || !proto.Equal(b.Message, a.Message) {
			return url + " " + cluster + " is another"
		}
	}
	if b, a := host(before), host(after); b == nil || !proto.Equal(b, a) {
		return "calm's virtual host is another"
	}
	return ""
}

func host(of offline.Resources) *routev3.VirtualHost {
	r := of[translate.RouteType]["80"]
	if r == nil {
		return nil
	}
	rc, _ := r.Message.(*routev3.RouteConfiguration)
	for _, h := range rc.GetVirtualHosts() {
		if h.GetName() == "calm.quiet.svc.cluster.local:80" {
			return h
		}
	}
	return nil
}

// TestAnyObject checks property for a number of objects of each kind.
func TestAnyObject(t *testing.T) {
	t.Parallel()
	f := newFixed(t)
	before := f.outcome(t)
	for _, k := range targets() {
		t.Run(string(k.kind), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) { property(r, k, f, before) })
		})
	}
}

// Seeds are how many texts the fuzzer begins with, and their length: enough for any object, since one that ends before
// its object does is no drawing at all.
const (
	seeds    = 16
	seedSize = 16 << 10
)

func run(f *testing.F, k target) {
	fixed := newFixed(f)
	before := fixed.outcome(f)
	random := rand.NewChaCha8([32]byte{})
	for range seeds {
		text := make([]byte, seedSize)
		_, _ = random.Read(text)
		f.Add(text)
	}
	f.Fuzz(rapid.MakeFuzz(func(r *rapid.T) { property(r, k, fixed, before) }))
}

// FuzzVirtualService checks property for what the fuzzer finds; so do the others.
func FuzzVirtualService(f *testing.F) { run(f, virtualService()) }

func FuzzDestinationRule(f *testing.F) { run(f, destinationRule()) }

func FuzzServiceEntry(f *testing.F) { run(f, serviceEntry()) }

func FuzzAuthorizationPolicy(f *testing.F) { run(f, authorizationPolicy()) }

func FuzzEnvoyFilter(f *testing.F) { run(f, envoyFilter()) }
