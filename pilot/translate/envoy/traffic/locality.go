package traffic

import (
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// The label keys by which near endpoints are told from far ones.
const (
	LabelNetwork  = "topology.istio.io/network"
	LabelRegion   = "topology.kubernetes.io/region"
	LabelZone     = "topology.kubernetes.io/zone"
	LabelSubzone  = "topology.istio.io/subzone"
	LabelHostname = "kubernetes.io/hostname"
)

// Locality says how a cluster prefers near endpoints. The zero value means not at all.
type Locality struct {
	Distribute []*networking.LocalityLoadBalancerSetting_Distribute
	Failover   []Failover
	// FailoverPriority are label keys ("key" or "key=value"), the most important first.
	FailoverPriority []string
	// ZoneAware leaves the choice within a region to Envoy.
	ZoneAware *networking.ZoneAwareLoadBalancerSetting
	// Active tells whether failover takes place: endpoints get priorities.
	Active bool
}

// Failover says where the traffic of a region goes when the region has no healthy endpoint.
type Failover struct{ From, To string }

// Weighted tells whether localities are balanced by their weights.
func (l *Locality) Weighted() bool {
	return l.ZoneAware == nil && (l.Distribute != nil || l.Active && (l.Failover != nil || len(l.FailoverPriority) > 0))
}

// Locality returns the setting in force: the policy's own, else the service's wish, else the mesh's. Failover needs
// outlier detection of a rule, unless the service wished it or Envoy does the balancing.
func (p Policy) Locality(svc *model.Service, mesh *meshconfig.MeshConfig) Locality {
	lb := p.LoadBalancer
	switch own := lb.GetLocalityLbSetting(); {
	case lb.GetZoneAwareLbSetting() != nil:
		return zoneAware(lb.GetZoneAwareLbSetting())
	case own != nil:
		return p.localitySetting(own)
	case svc.TrafficDistribution != model.DistributeAny:
		return distribution(svc.TrafficDistribution)
	case mesh.GetZoneAwareLbSetting() != nil:
		return zoneAware(mesh.GetZoneAwareLbSetting())
	}
	return p.localitySetting(mesh.GetLocalityLbSetting())
}

// localitySetting reads s; a nil s has the defaults.
func (p Policy) localitySetting(s *networking.LocalityLoadBalancerSetting) Locality {
	if e := s.GetEnabled(); e != nil && !e.GetValue() {
		return Locality{}
	}
	l := Locality{Distribute: s.GetDistribute(), FailoverPriority: s.GetFailoverPriority()}
	l.Active = p.Outlier != nil && !p.inherited
	for _, f := range s.GetFailover() {
		l.Failover = append(l.Failover, Failover{f.GetFrom(), f.GetTo()})
	}
	return l
}

func zoneAware(s *networking.ZoneAwareLoadBalancerSetting) Locality {
	if e := s.GetEnabled(); e != nil && !e.GetValue() {
		return Locality{ZoneAware: s}
	}
	l := Locality{ZoneAware: s, FailoverPriority: s.GetFailoverPriority(), Active: true}
	for _, f := range s.GetFailover() {
		l.Failover = append(l.Failover, Failover{f.GetFrom(), f.GetTo()})
	}
	return l
}

func distribution(d model.TrafficDistribution) Locality {
	keys := []string{LabelNetwork, LabelRegion, LabelZone}
	if d == model.PreferSameNode {
		keys = append(keys, LabelSubzone, LabelHostname)
	}
	return Locality{FailoverPriority: keys, Active: true}
}
