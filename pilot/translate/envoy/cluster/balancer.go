package cluster

import (
	"math"
	"math/big"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

// What Envoy takes at most: entries of a hash ring, and of a Maglev table, which must be a prime.
const (
	maxRingSize  = 8 << 20
	maxTableSize = 5000011
)

// tableSize returns the least prime that is not less than n.
func tableSize(n uint64) uint64 {
	if n >= maxTableSize {
		return maxTableSize
	}
	for !big.NewInt(int64(n)).ProbablyPrime(0) { //nolint:gosec // bounded just here
		n++
	}
	return n
}

// defaultRingSize is the least size of a hash ring unless the rule says otherwise.
const defaultRingSize = 1024

// balance sets the load balancer and all that is common to load balancers (translation-l4 §2.6, §2.7).
func (j *job) balance(cl *clusterv3.Cluster, s *model.Service, port *model.Port, p *traffic.Policy, subset bool) {
	common := j.panicThreshold(s, p)
	locality := p.Locality(s, j.mesh.Config)
	sticky := !subset && (s.SessionCookie != "" || s.SessionHeader != "")
	weighted := j.set.EnableLocalityWeightedLB || locality.Weighted()
	if sticky || weighted || locality.ZoneAware != nil {
		common = &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: common.GetHealthyPanicThreshold()}
	}
	if sticky {
		common.OverrideHostStatus = &corev3.HealthStatusSet{Statuses: []corev3.HealthStatus{
			corev3.HealthStatus_HEALTHY, corev3.HealthStatus_DRAINING, corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_DEGRADED,
		}}
	}
	switch {
	case locality.ZoneAware != nil:
		common.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig_{
			ZoneAwareLbConfig: zoneAware(locality.ZoneAware),
		}
	case weighted:
		common.LocalityConfigSpecifier = &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig_{
			LocalityWeightedLbConfig: &clusterv3.Cluster_CommonLbConfig_LocalityWeightedLbConfig{},
		}
	}
	cl.CommonLbConfig = common
	switch {
	case isOriginalDst(cl):
		cl.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
	case port.Protocol == model.Redis && j.set.EnableRedisFilter:
		cl.LbPolicy = clusterv3.Cluster_MAGLEV
	default:
		algorithm(cl, p.LoadBalancer)
	}
}

// panicThreshold says how many endpoints must be healthy for health to count. The rule's wish gives way where unhealthy
// endpoints are sent for another reason.
func (j *job) panicThreshold(s *model.Service, p *traffic.Policy) *clusterv3.Cluster_CommonLbConfig {
	switch {
	case traffic.ForcesUnhealthy(j.set, s):
		return j.noPanic
	case p.Outlier != nil && p.Outlier.GetMinHealthPercent() >= 0:
		if n := p.Outlier.GetMinHealthPercent(); n > 0 {
			return &clusterv3.Cluster_CommonLbConfig{HealthyPanicThreshold: percent(float64(n))}
		}
		return j.noPanic
	case j.set.AutoSendUnhealthy:
		return j.noPanic
	}
	return j.emptyLB
}

func zoneAware(s *networking.ZoneAwareLoadBalancerSetting) *clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig {
	out := &clusterv3.Cluster_CommonLbConfig_ZoneAwareLbConfig{}
	if e := s.GetEnabled(); e != nil && !e.GetValue() {
		out.RoutingEnabled = percent(0)
	}
	if n := s.GetMinClusterSize(); n != nil {
		out.MinClusterSize = wrapperspb.UInt64(uint64(n.GetValue()))
	}
	return out
}

func algorithm(cl *clusterv3.Cluster, lb *networking.LoadBalancerSettings) {
	if hash := lb.GetConsistentHash(); hash != nil {
		consistentHash(cl, hash)
		return
	}
	switch lb.GetSimple() {
	case networking.LoadBalancerSettings_ROUND_ROBIN:
		cl.LbPolicy = clusterv3.Cluster_ROUND_ROBIN
		if start := slowStart(lb); start != nil {
			cl.LbConfig = &clusterv3.Cluster_RoundRobinLbConfig_{
				RoundRobinLbConfig: &clusterv3.Cluster_RoundRobinLbConfig{SlowStartConfig: start},
			}
		}
	case networking.LoadBalancerSettings_RANDOM:
		cl.LbPolicy = clusterv3.Cluster_RANDOM
	default:
		cl.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
		if start := slowStart(lb); start != nil {
			cl.LbConfig = &clusterv3.Cluster_LeastRequestLbConfig_{
				LeastRequestLbConfig: &clusterv3.Cluster_LeastRequestLbConfig{SlowStartConfig: start},
			}
		}
	}
}

func slowStart(lb *networking.LoadBalancerSettings) *clusterv3.Cluster_SlowStartConfig {
	w := lb.GetWarmup()
	if w == nil {
		if d := lb.GetWarmupDurationSecs(); d != nil {
			return &clusterv3.Cluster_SlowStartConfig{SlowStartWindow: traffic.AtLeast(d, 0)}
		}
		return nil
	}
	out := &clusterv3.Cluster_SlowStartConfig{
		SlowStartWindow: traffic.AtLeast(durationpb.New(w.GetDuration().AsDuration()), 0),
		// A runtime key is required; this one is nobody's.
		Aggression:       &corev3.RuntimeDouble{DefaultValue: 1, RuntimeKey: "("},
		MinWeightPercent: &typev3.Percent{Value: 10},
	}
	if a := w.GetAggression(); a != nil {
		out.Aggression.DefaultValue = traffic.Between(a.GetValue(), 0, math.MaxInt32)
	}
	if m := w.GetMinimumPercent(); m != nil {
		out.MinWeightPercent = percent(m.GetValue())
	}
	return out
}

func consistentHash(cl *clusterv3.Cluster, hash *networking.LoadBalancerSettings_ConsistentHashLB) {
	if m := hash.GetMaglev(); m != nil {
		cl.LbPolicy = clusterv3.Cluster_MAGLEV
		if n := m.GetTableSize(); n > 0 {
			cl.LbConfig = &clusterv3.Cluster_MaglevLbConfig_{
				MaglevLbConfig: &clusterv3.Cluster_MaglevLbConfig{TableSize: wrapperspb.UInt64(tableSize(n))},
			}
		}
		return
	}
	cl.LbPolicy = clusterv3.Cluster_RING_HASH
	size := hash.GetMinimumRingSize() //nolint:staticcheck // users still write it
	if r := hash.GetRingHash(); r != nil {
		size = r.GetMinimumRingSize()
	} else if size == 0 {
		size = defaultRingSize
	}
	if size > 0 {
		cl.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{
			RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{MinimumRingSize: wrapperspb.UInt64(min(size, maxRingSize))},
		}
	}
}
