package endpoint

import (
	"fmt"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// Slot returns the load assignments, by the names of clusters.
func Slot() *translate.Slot {
	return &translate.Slot{
		Name: "eds", TypeURL: translate.EndpointType,
		Build: func(c *view.Context, unit any) ([]*translate.Message, error) {
			name, ok := unit.(string)
			if !ok {
				return nil, fmt.Errorf("load assignment: unit %v is not a cluster name", unit)
			}
			return []*translate.Message{{Name: name, Proto: named(c, name)}}, nil
		},
	}
}

// named returns the assignment of a cluster, empty if there is no such service or it is resolved otherwise.
func named(c *view.Context, cluster string) *endpointv3.ClusterLoadAssignment {
	empty := &endpointv3.ClusterLoadAssignment{ClusterName: cluster}
	name, ok := traffic.ParseName(cluster)
	if !ok {
		return empty
	}
	s := service(c, name.Host)
	if s == nil || s.Resolution == model.DNSLB || s.Resolution == model.DNSRoundRobin {
		return empty
	}
	port := s.PortByNumber(name.Port)
	if port == nil {
		return empty
	}
	rule := c.DestinationRule(s.Host, s.Namespace)
	return Assignment(c, &Request{
		Cluster: cluster, Name: name, Service: s, Port: port, Rule: rule,
		Policy: traffic.ForSubset(rule, name.Port, name.Subset, c.Mesh().Config),
	})
}

// service returns the service that the proxy means by host. The proxy's scope is asked only if that makes a difference.
func service(c *view.Context, host string) *model.Service {
	all := c.ServicesOfHost(host)
	switch {
	case len(all) == 0:
		return nil
	case len(all) == 1 && all[0].ExportTo.Public:
		return all[0]
	case len(all) == 1:
		if all[0].ExportTo.Allows(c.ProxyNamespace()) {
			return all[0]
		}
		return nil
	}
	if s := c.ScopedService(host); s != nil {
		return s.Service
	}
	return nil
}
