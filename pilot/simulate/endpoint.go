package simulate

import (
	"net"
	"strconv"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
)

const (
	// overprovisioning is Envoy's default factor, in percent: a priority level takes all load while that many times its
	// healthy share covers it.
	overprovisioning = 140
	// panicThreshold is Envoy's default, in percent.
	panicThreshold = 50
)

// level is one priority.
type level struct {
	members []int // indices of endpoints
	healthy int
}

// place is where an endpoint stands: the locality by its position, and that one's weight.
type place struct {
	locality int
	weight   uint32
}

// members returns the endpoints with their shares of the load.
func members(c *clusterv3.Cluster, a *endpointv3.ClusterLoadAssignment) []Endpoint {
	var out []Endpoint
	var levels []level
	places := map[int]place{} // by endpoint
	for at, l := range a.GetEndpoints() {
		for len(levels) <= int(l.GetPriority()) {
			levels = append(levels, level{})
		}
		for _, e := range l.GetLbEndpoints() {
			lv := &levels[l.GetPriority()]
			places[len(out)] = place{at, l.GetLoadBalancingWeight().GetValue()}
			lv.members = append(lv.members, len(out))
			if healthy(e) {
				lv.healthy++
			}
			out = append(out, Endpoint{
				Address: addressText(e.GetEndpoint().GetAddress()), Priority: l.GetPriority(), Locality: localityText(l.GetLocality()),
				Health: e.GetHealthStatus().String(), Weight: max(1, e.GetLoadBalancingWeight().GetValue()), Transport: transportOf(c, e),
			})
		}
	}
	factor := float64(overprovisioning)
	if f := a.GetPolicy().GetOverprovisioningFactor(); f != nil {
		factor = float64(f.GetValue())
	}
	threshold := float64(panicThreshold)
	if t := c.GetCommonLbConfig().GetHealthyPanicThreshold(); t != nil {
		threshold = t.GetValue()
	}
	for i, load := range loads(levels, factor) {
		var by map[int]place
		if c.GetCommonLbConfig().GetLocalityWeightedLbConfig() != nil {
			by = places
		}
		spread(out, levels[i], load, threshold, by)
	}
	return out
}

func healthy(e *endpointv3.LbEndpoint) bool {
	switch e.GetHealthStatus() {
	case corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_HEALTHY, corev3.HealthStatus_DEGRADED:
		return true
	}
	return false
}

// loads returns each priority's share of the load in percent. If nothing is healthy it goes by the number of members.
func loads(levels []level, factor float64) []float64 {
	out := make([]float64, len(levels))
	available := make([]float64, len(levels))
	var total float64
	members := 0
	for i, l := range levels {
		if len(l.members) > 0 {
			available[i] = min(100, factor*float64(l.healthy)/float64(len(l.members)))
		}
		total += available[i]
		members += len(l.members)
	}
	if total == 0 {
		for i, l := range levels {
			if members > 0 {
				out[i] = 100 * float64(len(l.members)) / float64(members)
			}
		}
		return out
	}
	total = min(100, total)
	left := 100.0
	for i := range levels {
		out[i] = min(left, 100*available[i]/total)
		left -= out[i]
	}
	return out
}

// spread shares the load of a priority out among its healthy members, or in panic among all: first among the localities
// by their weights, if it goes by those, then by the members' own.
func spread(out []Endpoint, l level, load, threshold float64, places map[int]place) {
	if load <= 0 || len(l.members) == 0 {
		return
	}
	panics := 100*float64(l.healthy)/float64(len(l.members)) < threshold
	inLocality, all := map[int]float64{}, map[int]float64{}
	weight := func(i int) float64 {
		if !panics && !isHealthy(out[i]) {
			return 0
		}
		return float64(out[i].Weight)
	}
	for _, i := range l.members {
		inLocality[places[i].locality] += weight(i)
		all[places[i].locality] += float64(out[i].Weight)
	}
	share := func(i int) float64 {
		at := places[i]
		if places == nil || inLocality[at.locality] == 0 {
			return weight(i)
		}
		available := min(1, overprovisioning/100.0*inLocality[at.locality]/all[at.locality])
		return float64(at.weight) * available * weight(i) / inLocality[at.locality]
	}
	var total float64
	for _, i := range l.members {
		total += share(i)
	}
	for _, i := range l.members {
		if total > 0 {
			out[i].Share = load * share(i) / total
		}
	}
}

func isHealthy(e Endpoint) bool {
	switch e.Health {
	case "UNKNOWN", "HEALTHY", "DEGRADED":
		return true
	}
	return false
}

func addressText(a *corev3.Address) string {
	switch a := a.GetAddress().(type) {
	case *corev3.Address_SocketAddress:
		return net.JoinHostPort(a.SocketAddress.GetAddress(), strconv.FormatUint(uint64(a.SocketAddress.GetPortValue()), 10))
	case *corev3.Address_Pipe:
		return "unix://" + a.Pipe.GetPath()
	case *corev3.Address_EnvoyInternalAddress:
		return "internal:" + a.EnvoyInternalAddress.GetServerListenerName() + "/" + a.EnvoyInternalAddress.GetEndpointId()
	}
	return ""
}

func localityText(l *corev3.Locality) string {
	return strings.TrimRight(l.GetRegion()+"/"+l.GetZone()+"/"+l.GetSubZone(), "/")
}
