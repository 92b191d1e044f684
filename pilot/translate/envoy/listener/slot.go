package listener

import (
	"slices"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// kindOutbound is the kind of the lists of units that a scope gives; the argument is a view.ScopeID.
const kindOutbound cell.Kind = 110

type unitList struct{ units []any }

// Define registers the cells that this package's slots use.
func Define(g *cell.Graph, pc func() *model.PushContext) {
	filter.Define(g, pc)
	view.DefineCell(g, pc, kindOutbound, func(c *view.Context, scope view.ScopeID) any {
		return &unitList{outboundUnits(c, c.TransportScopeOf(scope))}
	}, func(a, b any) bool {
		x, _ := a.(*unitList)
		y, _ := b.(*unitList)
		return x != nil && y != nil && slices.Equal(x.units, y.units)
	})
}

// OutboundSlot holds the listeners for what a sidecar's workload calls, those of headless services excepted.
func OutboundSlot() *translate.Slot {
	return &translate.Slot{
		Name: "lds/outbound", TypeURL: translate.ListenerType,
		Units: func(c *view.Context) []any {
			return sidecarOnly(c, func(c *view.Context) []any {
				list, _ := c.Cell(cell.ID{Kind: kindOutbound, Arg: c.SharedScopeID()}).(*unitList)
				return list.units
			})
		},
		Build: buildOutbound,
	}
}

// HeadlessSlot holds the listeners for single endpoints of headless services. They stand apart because a proxy that is
// such an endpoint itself has one less than its neighbours, which would else split all outbound listeners.
func HeadlessSlot() *translate.Slot {
	return &translate.Slot{
		Name: "lds/headless", TypeURL: translate.ListenerType,
		Units: func(c *view.Context) []any {
			return sidecarOnly(c, func(c *view.Context) []any { return headlessUnits(c, c.TransportScopeOf(c.SharedScopeID())) })
		},
		Build: buildOutbound,
	}
}

// InboundSlot holds the listeners for what is sent to a sidecar's workload.
func InboundSlot() *translate.Slot {
	return &translate.Slot{
		Name: "lds/inbound", TypeURL: translate.ListenerType,
		Units: func(c *view.Context) []any { return sidecarOnly(c, inboundUnits) },
		Build: func(c *view.Context, unit any) ([]*translate.Message, error) {
			if u, ok := unit.(tunnelUnit); ok {
				return buildTunnel(c, u), nil
			}
			return buildInbound(c)
		},
	}
}

// sidecarOnly lists units for Envoy sidecars; the other types' listeners are made elsewhere.
func sidecarOnly(c *view.Context, units func(*view.Context) []any) []any {
	if c.Type() != view.Sidecar || c.Generator() == view.GRPC || c.Mesh().Config.GetProxyListenPort() <= 0 {
		return nil
	}
	return units(c)
}

func buildOutbound(c *view.Context, unit any) ([]*translate.Message, error) {
	switch u := unit.(type) {
	case outboundUnit:
		return buildPort(c, u)
	case virtualUnit:
		return buildVirtualOutbound(c, u)
	case httpProxyUnit:
		return buildHTTPProxy(c, u)
	}
	return nil, nil
}
