package route

import (
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

func vhdsSettings(mode model.VHDSMode) *model.Settings {
	s := model.DefaultSettings()
	s.VHDS = mode
	return s
}

// joined returns a configuration whose virtual hosts are sent apart as Envoy has it in the end, with the hosts' own names.
func (w *world) joined(p client, name string) *routev3.RouteConfiguration {
	w.t.Helper()
	c := w.rds(p, name)
	for full, h := range w.vhds(p, name) {
		h.Name = strings.TrimPrefix(full, name+"/")
		c.VirtualHosts = append(c.VirtualHosts, h)
	}
	checkConfiguration(w.t, c)
	return c
}

// Both forms are answered in every mode, and hold the same.
func TestBothFormsAreAlwaysAnswered(t *testing.T) {
	t.Parallel()
	for _, mode := range []model.VHDSMode{model.VHDSOff, model.VHDSOn, model.VHDSAuto} {
		for _, name := range []string{"80", "http_proxy"} {
			w := newWorld(t, vhdsSettings(mode), manyServices(20)+ruleManifest("r", "svc-0", "1s"))
			p := client{namespace: "ns-1", stock: true}
			whole, apart := w.rds(p, name), w.rds(p, name+"~vhds")
			if n := len(whole.GetVirtualHosts()); n != 21 || whole.GetVhds() != nil || len(w.vhds(p, name)) != 0 {
				t.Errorf("%s %s holds %d virtual hosts, vhds %v, %d apart", mode, name, n, whole.GetVhds(), len(w.vhds(p, name)))
			}
			if len(apart.GetVirtualHosts()) != 1 || apart.GetVirtualHosts()[0].GetName() != "allow_any" {
				t.Errorf("%s %s holds %d virtual hosts, want the catch-all alone", mode, apart.GetName(), len(apart.GetVirtualHosts()))
			}
			if s := apart.GetVhds().GetConfigSource(); s.GetAds() == nil || s.GetInitialFetchTimeout().AsDuration() != 0 {
				t.Errorf("%s vhds is %v", mode, apart.GetVhds())
			}
			joined := w.joined(p, name+"~vhds")
			if len(joined.GetVirtualHosts()) != len(whole.GetVirtualHosts()) {
				t.Errorf("%s %s: %d virtual hosts in the other form, want %d", mode, name, len(joined.GetVirtualHosts()), len(whole.GetVirtualHosts()))
			}
			for _, h := range whole.GetVirtualHosts() {
				if twin := host(joined, h.GetName()); twin == nil || twin.String() != h.String() {
					t.Errorf("%s %s: %v is %v in the other form", mode, name, h, twin)
				}
			}
		}
	}
}

// What serves unknown hosts stays in the configuration, so that it never meets the catch-all.
func TestTheHostForUnknownOnesIsNotSentApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vhdsSettings(model.VHDSOn), manyServices(3)+`---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: one, namespace: ns-1}
spec: {egress: [{hosts: ["ns-5/*"]}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: all, namespace: ns-5}
spec: {hosts: ["*"], http: [{directResponse: {status: 418}}]}
`)
	p := client{namespace: "ns-1", stock: true}
	c := w.rds(p, "80~vhds")
	if len(c.GetVirtualHosts()) != 1 || c.GetVirtualHosts()[0].GetName() != "*:80" {
		t.Errorf("the configuration holds %v", c.GetVirtualHosts())
	}
	if hosts := w.vhds(p, "80~vhds"); len(hosts) != 0 {
		t.Errorf("sent apart: %v", hosts)
	}
}

func TestWhichFormAListenerNames(t *testing.T) {
	t.Parallel()
	stock := client{namespace: "ns-1", stock: true}
	for name, c := range map[string]struct {
		mode      model.VHDSMode
		count     int
		p         client
		ask, want string
	}{
		"off":                    {model.VHDSOff, 120, stock, "80", "80"},
		"small":                  {model.VHDSAuto, 100, stock, "80", "80"},
		"large":                  {model.VHDSAuto, 101, stock, "80", "80~vhds"},
		"large, all ports":       {model.VHDSAuto, 101, stock, "http_proxy", "http_proxy~vhds"},
		"on":                     {model.VHDSOn, 1, stock, "80", "80~vhds"},
		"on, nothing there":      {model.VHDSOn, 1, stock, "81", "81~vhds"},
		"Istio's proxy":          {model.VHDSOn, 20, client{namespace: "ns-1"}, "80", "80"},
		"the state of the world": {model.VHDSOn, 20, client{namespace: "ns-1", stock: true, sotw: true}, "80", "80"},
		"a service's listener":   {model.VHDSOn, 20, stock, "svc-0.ns-0.svc.cluster.local:80", "svc-0.ns-0.svc.cluster.local:80"},
		"a socket":               {model.VHDSOn, 20, stock, "unix:///var/run/s", "unix:///var/run/s"},
		"an unknown name":        {model.VHDSOn, 20, stock, "nonsense", "nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, vhdsSettings(c.mode), manyServices(c.count))
			if got := NameFor(w.context(c.p), c.ask); got != c.want {
				t.Errorf("%s is asked for as %s, want %s", c.ask, got, c.want)
			}
		})
	}
}

// Names without a second form are what they are, whatever they end with.
func TestNamesWithoutASecondForm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vhdsSettings(model.VHDSOn), manyServices(3))
	p := client{namespace: "ns-1", stock: true}
	for _, name := range []string{"svc-0.ns-0.svc.cluster.local:80~vhds", "nonsense~vhds", "~vhds", "80~vhds~vhds", "unix:///s~vhds"} {
		if c := w.rds(p, name); c.GetVhds() != nil || len(w.vhds(p, name)) != 0 {
			t.Errorf("%s is sent apart: %v", name, c)
		}
	}
	grpc := client{namespace: "ns-1", metadata: map[string]any{"GENERATOR": "grpc"}}
	if c := w.rds(grpc, "80~vhds"); c.GetVhds() != nil || len(w.vhds(grpc, "80~vhds")) != 0 {
		t.Errorf("a gRPC client is answered %v", c)
	}
	if n := parseName("unix:///s~vhds"); n.text != "unix:///s~vhds" {
		t.Errorf("a socket's path was cut to %s", n.text)
	}
}

// A listener asks again which form to name only when the answer may differ, and follows only when it does.
func TestTheFormChangesOnlyAtTheSize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vhdsSettings(model.VHDSAuto), manyServices(100))
	p := client{namespace: "ns-1", stock: true}
	large := func() *cell.Cell { return w.graph.Get(nil, cell.ID{Kind: kindLarge, Arg: "80"}, w.view(p)) }
	before := large()
	start := w.computed()
	w.apply(ruleManifest("r", "svc-0", "1s"))
	if large() != before || w.computed()-start > 5 {
		t.Errorf("a rule made another answer, %d computations", w.computed()-start)
	}
	w.apply(manyServices(101))
	if NameFor(w.context(p), "80") != "80~vhds" {
		t.Error("above the size the form is the same")
	}
}

// TestNothingDeprecated looks for the fields that stock Envoys complain about at each use.
func TestNothingDeprecated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil, testdata(t, "rules.in.yaml"))
	for _, name := range []string{"80", "8080", httpProxyName} {
		c := w.rds(client{namespace: "shop", labels: map[string]string{"app": "web"}, stock: true}, name)
		for _, f := range deprecated(c.ProtoReflect()) {
			t.Errorf("%s uses the deprecated field %s", name, f)
		}
	}
}
