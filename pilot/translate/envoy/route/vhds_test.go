package route

import (
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

func vhdsSettings(mode model.VHDSMode) *model.Settings {
	s := model.DefaultSettings()
	s.VHDS = mode
	return s
}

func TestVirtualHostsOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t, vhdsSettings(model.VHDSOn), manyServices(20)+ruleManifest("r", "svc-0", "1s"))
	stock := client{namespace: "ns-1", stock: true}
	c := w.rds(stock, "80")
	if len(c.GetVirtualHosts()) != 1 || c.GetVirtualHosts()[0].GetName() != "allow_any" {
		t.Errorf("the configuration holds %d virtual hosts, want the catch-all alone", len(c.GetVirtualHosts()))
	}
	if s := c.GetVhds().GetConfigSource(); s.GetAds() == nil || s.GetInitialFetchTimeout().AsDuration() != 0 {
		t.Errorf("vhds is %v", c.GetVhds())
	}
	hosts := w.vhds(stock, "80")
	whole := w.rds(client{namespace: "ns-1"}, "80") // an Istio proxy gets all in one
	if len(hosts) != 20 || len(whole.GetVirtualHosts()) != 21 {
		t.Errorf("%d virtual hosts by themselves, %d in one configuration", len(hosts), len(whole.GetVirtualHosts()))
	}
	for name, h := range hosts {
		twin := host(whole, strings.TrimPrefix(name, "80/"))
		if twin == nil || strings.Join(h.GetDomains(), " ") != strings.Join(twin.GetDomains(), " ") {
			t.Errorf("%s serves %v, in one configuration it is %v", name, h.GetDomains(), twin.GetDomains())
		}
	}
}

func TestVirtualHostsStayTogetherWhereTheyMust(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mode  model.VHDSMode
		count int
		p     client
		ask   string
		apart bool
	}{
		"off":                  {model.VHDSOff, 120, client{namespace: "ns-1", stock: true}, "80", false},
		"small":                {model.VHDSAuto, 100, client{namespace: "ns-1", stock: true}, "80", false},
		"large":                {model.VHDSAuto, 101, client{namespace: "ns-1", stock: true}, "80", true},
		"Istio's proxy":        {model.VHDSOn, 20, client{namespace: "ns-1"}, "80", false},
		"a service's listener": {model.VHDSOn, 20, client{namespace: "ns-1", stock: true}, "svc-0.ns-0.svc.cluster.local:80", false},
		"an unknown name":      {model.VHDSOn, 20, client{namespace: "ns-1", stock: true}, "nonsense", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, vhdsSettings(c.mode), manyServices(c.count))
			if apart := w.rds(c.p, c.ask).GetVhds() != nil; apart != c.apart {
				t.Errorf("sent one by one: %v, want %v", apart, c.apart)
			}
			if n := len(w.vhds(c.p, c.ask)); (n > 0) != c.apart {
				t.Errorf("%d virtual hosts by themselves", n)
			}
		})
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
