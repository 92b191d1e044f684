package route

import (
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

const (
	fieldVirtualHosts protowire.Number = 2
	// maxDirectResponse is the largest body of a direct response, in bytes.
	maxDirectResponse = 1 << 20
	// autoVHDSAbove is the number of virtual hosts above which VHDSAuto sends them one by one.
	autoVHDSAbove = 100
)

// Slot returns the outbound route configurations of sidecars, by name.
func Slot() *translate.Slot {
	return &translate.Slot{Name: "rds/outbound", TypeURL: translate.RouteType, Build: func(c *view.Context, unit any) ([]*translate.Message, error) {
		name, _ := unit.(string)
		if c.Type() != view.Sidecar || name == "" {
			return nil, nil
		}
		return []*translate.Message{configuration(c, name)}, nil
	}}
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

func planFor(c *view.Context, name string) *plan {
	p, _ := c.Cell(cell.ID{Kind: kindPlan, Arg: name}).(*plan)
	return p
}

// configuration assembles a route configuration from its virtual hosts.
func configuration(c *view.Context, name string) *translate.Message {
	head := &routev3.RouteConfiguration{Name: name}
	m := &translate.Message{Name: name, Proto: head, Field: fieldVirtualHosts}
	p := planFor(c, name)
	if parseName(name).grpc {
		m.Parts = parts(c, p.hosts)
		return m
	}
	head.ValidateClusters = wrapperspb.Bool(false)
	if !p.known {
		return m
	}
	head.MaxDirectResponseBodySizeBytes = wrapperspb.UInt32(maxDirectResponse)
	head.IgnorePortInHostMatching = true
	apart := separate(c, p)
	if apart {
		head.Vhds = &routev3.Vhds{ConfigSource: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			ResourceApiVersion:    corev3.ApiVersion_V3,
			// Without its virtual hosts a configuration would send everything to the catch-all: wait for them.
			InitialFetchTimeout: durationpb.New(0),
		}}
	}
	hosts := p.hosts
	if apart {
		hosts = slices.DeleteFunc(slices.Clone(hosts), separable)
	}
	m.Parts = parts(c, hosts)
	if p.rest != nil {
		m.Parts = appendPart(m.Parts, c.Cell(cell.ID{Kind: kindCatchAll, Arg: *p.rest}))
	}
	return m
}

func parts(c *view.Context, hosts []hostUnit) []*translate.Part {
	out := make([]*translate.Part, 0, len(hosts)+1)
	for _, u := range hosts {
		out = appendPart(out, c.Cell(cell.ID{Kind: kindVirtualHost, Arg: u}))
	}
	return out
}

func appendPart(parts []*translate.Part, value any) []*translate.Part {
	if p, _ := value.(*translate.Part); p != nil {
		return append(parts, p)
	}
	return parts
}

// separate tells whether the plan's virtual hosts are sent one by one: to stock Envoys, where that is switched on.
func separate(c *view.Context, p *plan) bool {
	mode := c.Settings().VHDS
	if mode != model.VHDSOn && mode != model.VHDSAuto || !p.known || p.rest == nil || c.Generator() != "" || !c.Stock() {
		return false
	}
	return mode == model.VHDSOn || len(p.hosts) > autoVHDSAbove
}

// separable tells whether a virtual host can go by itself: the last slash of its resource name ends the configuration's.
func separable(u hostUnit) bool { return !strings.Contains(u.name, "/") }

func virtualHosts(c *view.Context, name string) []*translate.Message {
	p := planFor(c, name)
	if !separate(c, p) {
		return nil
	}
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
