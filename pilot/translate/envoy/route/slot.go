package route

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

const (
	fieldVirtualHosts protowire.Number = 2
	// maxDirectResponse is the largest body of a direct response, in bytes.
	maxDirectResponse = 1 << 20
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

func planFor(c *view.Context, n configName) *plan {
	p, _ := c.Cell(cell.ID{Kind: kindPlan, Arg: n.text}).(*plan)
	return p
}

// configuration assembles a route configuration from its virtual hosts.
func configuration(c *view.Context, name string) *translate.Message {
	head := &routev3.RouteConfiguration{Name: name}
	m := &translate.Message{Name: name, Proto: head, Field: fieldVirtualHosts}
	n := parseName(name)
	p := planFor(c, n)
	if n.grpc {
		m.Parts = parts(c, p.hosts)
		return m
	}
	head.ValidateClusters = wrapperspb.Bool(false)
	if !p.known || n.apart && c.Generator() != "" {
		return m
	}
	head.MaxDirectResponseBodySizeBytes = wrapperspb.UInt32(maxDirectResponse)
	head.IgnorePortInHostMatching = true
	hosts := p.hosts
	if n.apart {
		head.Vhds = vhds()
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
