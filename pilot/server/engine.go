package server

import (
	"log/slog"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/dns"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/cluster"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/endpoint"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/extension"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/listener"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/patch"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/translate/grpc"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// NewEngine returns a push engine that generates everything this control plane serves. change, if not nil, gives other
// slots in place of those.
func NewEngine(log *slog.Logger, change func([]*translate.Slot) []*translate.Slot) *xds.Engine {
	slots := []*translate.Slot{
		patch.Clusters(cluster.OutboundSlot(), patch.Outbound), patch.Clusters(cluster.InboundSlot(), patch.Inbound),
		endpoint.Slot(),
		patch.Listeners(listener.OutboundSlot(), patch.Outbound), patch.FurtherListeners(listener.HeadlessSlot(), patch.Outbound),
		patch.Listeners(listener.InboundSlot(), patch.Inbound),
		// virtual hosts even if VHDS is off: a proxy may come back with listeners from when it was on
		patch.Routes(route.Slot(), patch.Outbound), route.VHDSSlot(),
		grpc.ClusterSlot(), grpc.ListenerSlot(), grpc.ServerSlot(),
		dns.Slot(),
		extension.Slot(patch.Extension),
	}
	if change != nil {
		slots = change(slots)
	}
	return xds.NewEngine(log, slots, []func(*cell.Graph, func() *model.PushContext){
		view.DefineScope, listener.Define, route.Define, dns.Define, patch.Define,
	}...)
}
