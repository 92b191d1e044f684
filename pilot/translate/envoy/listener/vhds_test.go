package listener

import (
	"fmt"
	"strings"
	"testing"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// routeNames returns the route configurations that a proxy's listeners name, by listener.
func (w *world) routeNames(t *testing.T, v *view.View) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, m := range w.listeners(t, v) {
		l, _ := m.(*listenerv3.Listener)
		for _, c := range append(l.GetFilterChains(), l.GetDefaultFilterChain()) {
			for _, f := range c.GetFilters() {
				h := &hcmv3.HttpConnectionManager{}
				if f.GetTypedConfig().UnmarshalTo(h) == nil && h.GetRds() != nil {
					out[name] = h.GetRds().GetRouteConfigName()
				}
			}
		}
	}
	return out
}

func vhdsWorld(t *testing.T, mode model.VHDSMode, services int) *world {
	t.Helper()
	settings := model.DefaultSettings()
	settings.VHDS = mode
	return newWorldWith(t, settings, httpServices(0, services)+serviceYAML("auto", "10.97.0.1", "{port: 9000}"), "proxyHttpPort: 15002")
}

func httpServices(from, to int) string {
	var b strings.Builder
	for i := from; i < to; i++ {
		b.WriteString(serviceYAML(fmt.Sprint("s", i), fmt.Sprintf("10.96.1.%d", i+1), "{name: http, port: 80}"))
	}
	return b.String()
}

// Listeners of many services name the form whose virtual hosts are sent apart, those of one service never do.
func TestListenersNameTheForm(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode       model.VHDSMode
		services   int
		extensions []string
		suffix     string
	}{
		{model.VHDSOff, 120, stockExtensions(), ""},
		{model.VHDSOn, 2, stockExtensions(), "~vhds"},
		{model.VHDSOn, 2, nil, ""},
		{model.VHDSAuto, 2, stockExtensions(), ""},
		{model.VHDSAuto, 120, stockExtensions(), "~vhds"},
	} {
		w := vhdsWorld(t, c.mode, c.services)
		got := w.routeNames(t, w.node(t, inA, metaOf("ns-a"), c.extensions...))
		for listener, want := range map[string]string{
			"0.0.0.0_80": "80" + c.suffix, "127.0.0.1_15002": "http_proxy" + c.suffix, "10.97.0.1_9000": "auto.shop.svc.cluster.local:9000",
		} {
			if got[listener] != want {
				t.Errorf("%s, %d services, stock %v: %s names %q, want %q", c.mode, c.services, c.extensions != nil, listener, got[listener], want)
			}
		}
	}
}

// With VHDS on, proxies of two namespaces share listeners as they do without; by size, a listener follows the size alone.
func TestTheFormCostsListenersLittle(t *testing.T) {
	t.Parallel()
	w := vhdsWorld(t, model.VHDSOn, 2)
	a, b := w.node(t, inA, metaOf("ns-a"), stockExtensions()...), w.node(t, inB, metaOf("ns-b"), stockExtensions()...)
	unit := w.units(t, 0, a)["0.0.0.0_80"]
	if unit == (outboundUnit{}) || w.build(t, 0, unit, a) != w.build(t, 0, unit, b) {
		t.Error("two namespaces do not share the listener")
	}
	w = vhdsWorld(t, model.VHDSAuto, 100)
	a = w.node(t, inA, metaOf("ns-a"), stockExtensions()...)
	before := w.build(t, 0, unit, a)
	w.apply(t, `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: r, namespace: shop}
spec: {hosts: [s1], http: [{timeout: 2s, route: [{destination: {host: s1}}]}]}
`)
	if w.build(t, 0, unit, a) != before {
		t.Error("a route was edited and the listener was made anew")
	}
	w.apply(t, httpServices(100, 102))
	if w.build(t, 0, unit, a) == before {
		t.Error("the size was passed and the listener is the same")
	}
}
