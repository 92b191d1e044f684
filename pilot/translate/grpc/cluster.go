package grpc

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// The least number of entries of a hash ring unless the rule says otherwise, and the most that gRPC takes.
const (
	defaultRingSize = 1024
	maxRingSize     = 8 << 20
)

// ClusterSlot returns the clusters of clients, by name.
func ClusterSlot() *translate.Slot { return named("cds/grpc", translate.ClusterType, clientCluster) }

// clientCluster returns the cluster of a service's port, or of a subset that a rule names.
func clientCluster(c *view.Context, name string) (*translate.Message, error) {
	n, ok := traffic.ParseName(name)
	if !ok || n.Direction != traffic.Outbound || n.DNAT {
		return nil, nil
	}
	s := c.ScopedService(n.Host)
	if s == nil || n.Port == 0 || portOf(s, n.Port) == nil {
		return nil, nil
	}
	rule := c.DestinationRule(s.Host, s.Namespace)
	if n.Subset != "" && rule.Subset(n.Subset) == nil {
		return nil, nil
	}
	p := traffic.ForSubset(rule, n.Port, n.Subset, c.Mesh().Config)
	out := &clusterv3.Cluster{
		Name: name, AltStatName: name + ";",
		ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_EDS},
		EdsClusterConfig:     &clusterv3.Cluster_EdsClusterConfig{EdsConfig: ads(), ServiceName: name},
	}
	balance(out, p.LoadBalancer)
	if most := p.Pool.GetHttp().GetHttp2MaxRequests(); most > 0 {
		out.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{{
			MaxRequests: wrapperspb.UInt32(uint32(most)),
		}}}
	}
	if p.TLS.GetMode() == networking.ClientTLSSettings_ISTIO_MUTUAL {
		out.TransportSocket = tlsSocket(&tlsv3.UpstreamTlsContext{CommonTlsContext: mutual(accept(c.ServiceAccounts(s.ServiceKey)))})
	}
	if c.Settings().EnablePersistentSessionFilter && n.Subset == "" && sticky(s.Service) {
		out.CommonLbConfig = &clusterv3.Cluster_CommonLbConfig{OverrideHostStatus: &corev3.HealthStatusSet{
			Statuses: []corev3.HealthStatus{
				corev3.HealthStatus_HEALTHY, corev3.HealthStatus_DRAINING, corev3.HealthStatus_UNKNOWN, corev3.HealthStatus_DEGRADED,
			},
		}}
	}
	return &translate.Message{Name: name, Proto: out}, nil
}

func sticky(s *model.Service) bool { return s.SessionCookie != "" || s.SessionHeader != "" }

// balance sets the load balancer, of those that gRPC has. It has one for hashing.
func balance(cl *clusterv3.Cluster, lb *networking.LoadBalancerSettings) {
	if hash := lb.GetConsistentHash(); hash != nil {
		size := hash.GetMinimumRingSize() //nolint:staticcheck // users still write it
		if ring := hash.GetRingHash(); ring != nil {
			size = ring.GetMinimumRingSize()
		}
		if size == 0 {
			size = defaultRingSize
		}
		cl.LbPolicy = clusterv3.Cluster_RING_HASH
		cl.LbConfig = &clusterv3.Cluster_RingHashLbConfig_{RingHashLbConfig: &clusterv3.Cluster_RingHashLbConfig{
			MinimumRingSize: wrapperspb.UInt64(min(size, maxRingSize)),
		}}
		return
	}
	if lb.GetSimple() == networking.LoadBalancerSettings_LEAST_REQUEST {
		cl.LbPolicy = clusterv3.Cluster_LEAST_REQUEST
	}
}

// accept matches servers that run as one of the accounts, any server if there is none.
func accept(accounts []string) *tlsv3.CertificateValidationContext {
	out := &tlsv3.CertificateValidationContext{}
	for _, a := range accounts {
		//nolint:staticcheck // the form that all libraries read
		out.MatchSubjectAltNames = append(out.MatchSubjectAltNames, &matcherv3.StringMatcher{
			MatchPattern: &matcherv3.StringMatcher_Exact{Exact: a},
		})
	}
	return out
}
