package server

import (
	"log/slog"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/dns"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/cluster"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/endpoint"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/listener"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// NewEngine returns a push engine that generates everything this control plane serves. change, if not nil, gives other
// slots in place of those.
func NewEngine(log *slog.Logger, change func([]*translate.Slot) []*translate.Slot) *xds.Engine {
	slots := []*translate.Slot{
		cluster.OutboundSlot(), cluster.InboundSlot(),
		endpoint.Slot(),
		listener.OutboundSlot(), listener.HeadlessSlot(), listener.InboundSlot(),
		// virtual hosts even if VHDS is off: a proxy may come back with listeners from when it was on
		route.Slot(), route.VHDSSlot(),
		dns.Slot(),
	}
	if change != nil {
		slots = change(slots)
	}
	return xds.NewEngine(log, slots, []func(*cell.Graph, func() *model.PushContext){view.DefineScope, listener.Define, route.Define, dns.Define}...)
}
