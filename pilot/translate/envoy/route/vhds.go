package route

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// autoVHDSAbove is the number of virtual hosts above which VHDSAuto sends them apart.
const autoVHDSAbove = 100

// NameFor returns the name under which a listener asks for the route configuration called name: that of the form whose
// virtual hosts are sent apart, where that is switched on and the proxy can take them so; else name itself. Both are
// answered at any time, since a listener that drains still uses the other.
func NameFor(c *view.Context, name string) string {
	mode := c.Settings().VHDS
	if mode != model.VHDSOn && mode != model.VHDSAuto || !parseName(name).divisible() {
		return name
	}
	// Patches of routes are applied to configurations that hold their virtual hosts.
	if len(c.EnvoyFilterPatches(view.RoutePatches)) > 0 {
		return name
	}
	// In the state of the world Envoy would wait for the virtual hosts for ever.
	if c.Generator() != "" || !c.Stock() || !c.Delta() {
		return name
	}
	if mode == model.VHDSAuto {
		// A cell of its own keeps listeners out of all that changes routes.
		if large, _ := c.Cell(cell.ID{Kind: kindLarge, Arg: name}).(bool); !large {
			return name
		}
	}
	return name + apartSuffix
}

// isLarge tells whether VHDSAuto sends the virtual hosts of a configuration apart.
func isLarge(c *view.Context, name string) bool {
	return len(planFor(c, parseName(name)).hosts) > autoVHDSAbove
}

// VHDSSlot returns the virtual hosts of route configurations that do not hold them, by the configuration's name. A
// resource's name is "<configuration>/<host:port>".
func VHDSSlot() *translate.Slot {
	return &translate.Slot{Name: "vhds", TypeURL: translate.VirtualHostType, Build: func(c *view.Context, unit any) ([]*translate.Message, error) {
		name, _ := unit.(string)
		if c.Type() != view.Sidecar || name == "" {
			return nil, nil
		}
		return virtualHosts(c, name), nil
	}}
}

func virtualHosts(c *view.Context, name string) []*translate.Message {
	n := parseName(name)
	if !n.apart || c.Generator() != "" {
		return nil
	}
	p := planFor(c, n)
	out := make([]*translate.Message, 0, len(p.hosts))
	for _, u := range p.hosts {
		if !separable(u) {
			continue
		}
		// Envoy forgets a virtual host only if its inner name is the resource's.
		u.name = name + "/" + u.name
		if part, _ := c.Cell(cell.ID{Kind: kindVirtualHost, Arg: u}).(*translate.Part); part != nil {
			out = append(out, &translate.Message{Name: part.Name, Whole: part})
		}
	}
	return out
}

// separable tells whether a virtual host can go by itself. The last slash of its resource name ends the configuration's;
// and what serves unknown hosts is in the configuration, so that it takes the place of the catch-all in one step.
func separable(u hostUnit) bool {
	if strings.Contains(u.name, "/") {
		return false
	}
	for d := range strings.SplitSeq(u.domains, "\n") {
		if d == "*" {
			return false
		}
	}
	return true
}

// vhds says that the virtual hosts come apart, on the stream that brought the configuration.
func vhds() *routev3.Vhds {
	return &routev3.Vhds{ConfigSource: &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
		ResourceApiVersion:    corev3.ApiVersion_V3,
		// Without its virtual hosts a configuration would send everything to the catch-all: wait for them.
		InitialFetchTimeout: durationpb.New(0),
	}}
}
