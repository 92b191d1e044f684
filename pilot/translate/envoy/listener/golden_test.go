package listener

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
)

// proxy is one proxy of a test case.
type proxy struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	Meta string `json:"meta"`
	// Stock makes it a stock Envoy.
	Stock bool `json:"stock"`
	// Full names listeners to be shown whole.
	Full []string `json:"full"`
}

// stockExtensions are enough for a client to count as one that says what it links.
func stockExtensions() []string {
	return []string{"envoy.filters.http.router", "envoy.filters.network.tcp_proxy"}
}

// TestGolden compares the listeners of each case's proxies with what was reviewed.
func TestGolden(t *testing.T) {
	t.Parallel()
	fixture.EachArchive(t, func(t *testing.T, a *fixture.Archive) {
		settings := model.DefaultSettings()
		if err := yaml.Unmarshal([]byte(a.Text("settings.yaml")), settings); err != nil {
			t.Fatal(err)
		}
		w := newWorldWith(t, settings, a.Text("input.yaml"), a.Text("mesh.yaml"))
		var proxies []proxy
		if err := yaml.Unmarshal([]byte(a.Text("proxies.yaml")), &proxies); err != nil {
			t.Fatal(err)
		}
		got, names := map[string]string{}, []string{}
		add := func(name, text string) {
			names = append(names, name)
			got[name] = text
		}
		for _, p := range proxies {
			list := w.listeners(t, w.node(t, p.ID, p.Meta, p.extensions()...))
			var b strings.Builder
			for _, n := range slices.Sorted(maps.Keys(list)) {
				b.WriteString(outline(t, list[n]))
			}
			add(p.Name, b.String())
			for _, n := range p.Full {
				add(p.Name+"/"+n+".yaml", fixture.YAML(t, fixture.Value(t, list[n])))
			}
		}
		a.Check(t, names, got)
	})
}

func (p *proxy) extensions() []string {
	if p.Stock {
		return stockExtensions()
	}
	return nil
}
