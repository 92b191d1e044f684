package cluster

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/forward"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// serviceUnit is the clusters of one service. Ports are the numbers of the visible ports, "" if all are visible, so
// that the unit need not read the scope.
type serviceUnit struct {
	Host, Namespace string
	Ports           string
}

// fixedUnit is a cluster that no service gives, by its name.
type fixedUnit string

// OutboundSlot returns the clusters that a sidecar or a router sends to.
func OutboundSlot() *translate.Slot {
	m := newMaker()
	return &translate.Slot{
		Name: "cds/outbound", TypeURL: translate.ClusterType, Units: outboundUnits,
		Build: func(c *view.Context, unit any) ([]*translate.Message, error) {
			j := m.job(c)
			switch u := unit.(type) {
			case serviceUnit:
				return j.service(u)
			case fixedUnit:
				return j.fixed(u)
			}
			return nil, fmt.Errorf("outbound clusters: unknown unit %v", unit)
		},
	}
}

func outboundUnits(c *view.Context) []any {
	if c.Generator() == view.GRPC || c.Type() != view.Sidecar && c.Type() != view.Router {
		return nil
	}
	services := c.TransportScopeOf(c.SharedScopeID()).Services
	units := make([]any, 0, len(services)+2)
	for _, s := range services {
		if s.Resolution != model.Alias {
			units = append(units, unitOf(s))
		}
	}
	units = append(units, fixedUnit(traffic.BlackHole))
	if c.Type() == view.Sidecar {
		units = append(units, fixedUnit(traffic.Passthrough))
		if forward.AnyPolicy(c) != nil {
			units = append(units, fixedUnit(traffic.DynamicDNS))
		}
	}
	return append(units, hboneUnits(c)...)
}

func unitOf(s *view.ScopedService) serviceUnit {
	u := serviceUnit{Host: s.Host, Namespace: s.Namespace}
	if len(s.Ports) == len(s.Service.Ports) {
		return u
	}
	var b strings.Builder
	for i, p := range s.Ports {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatUint(uint64(p.Number), 10))
	}
	u.Ports = b.String()
	return u
}

// has tells whether the port is visible.
func (u serviceUnit) has(number uint32) bool {
	if u.Ports == "" {
		return true
	}
	want := strconv.FormatUint(uint64(number), 10)
	for p := range strings.SplitSeq(u.Ports, ",") {
		if p == want {
			return true
		}
	}
	return false
}
