package cluster

import (
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commondnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/common/dns/v3"
	dnsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dns/v3"
	caresv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/network/dns_resolver/cares/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/endpoint"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/forward"
)

// What the environment variables of the same meaning default to.
const (
	defaultRefreshRate = 60 * time.Second
	defaultJitter      = 100 * time.Millisecond
	defaultMaxQueries  = 100
)

// dns makes cl resolve the service's names. It reports false if there are none.
func (j *job) dns(cl *clusterv3.Cluster, t *target) bool {
	assignment := endpoint.Assignment(j.c, &endpoint.Request{
		Cluster: cl.GetName(), Name: t.name, Service: t.service, Port: t.port, Rule: t.rule, Policy: t.policy, DNS: true,
	})
	if len(assignment.GetEndpoints()) == 0 {
		return false
	}
	cl.LoadAssignment = assignment
	one := t.service.Resolution == model.DNSRoundRobin || t.service.ConnectStrategyRace
	if one { // and of one name only
		assignment.Endpoints = assignment.Endpoints[:1]
		assignment.Endpoints[0].LbEndpoints = assignment.Endpoints[0].GetLbEndpoints()[:1]
	}
	family := forward.LookupFamily(j.c, t.service)
	if j.c.Stock() {
		j.stockDNS(cl, one, family)
		return true
	}
	discover(cl, clusterv3.Cluster_STRICT_DNS)
	if one {
		discover(cl, clusterv3.Cluster_LOGICAL_DNS)
	}
	// The forms that proxies of this profile have always been sent.
	cl.DnsLookupFamily = family
	cl.DnsRefreshRate = j.refreshRate() //nolint:staticcheck // see above
	cl.RespectDnsTtl = true             //nolint:staticcheck // see above
	cl.DnsJitter = j.jitter()           //nolint:staticcheck // see above
	cl.TypedDnsResolverConfig = j.resolver()
	return true
}

// stockDNS says the same without the fields that are deprecated.
func (j *job) stockDNS(cl *clusterv3.Cluster, one bool, family clusterv3.Cluster_DnsLookupFamily) {
	to := commondnsv3.DnsLookupFamily_V4_ONLY
	switch family {
	case clusterv3.Cluster_V6_ONLY:
		to = commondnsv3.DnsLookupFamily_V6_ONLY
	case clusterv3.Cluster_ALL:
		to = commondnsv3.DnsLookupFamily_ALL
	}
	cl.ClusterDiscoveryType = &clusterv3.Cluster_ClusterType{ClusterType: &clusterv3.Cluster_CustomClusterType{
		Name: nameDNSCluster,
		TypedConfig: j.pack(&dnsv3.DnsCluster{
			DnsRefreshRate: j.refreshRate(), RespectDnsTtl: true, DnsJitter: j.jitter(), DnsLookupFamily: to,
			TypedDnsResolverConfig: j.resolver(), AllAddressesInSingleEndpoint: one,
		}),
	}}
}

// hasNames tells whether there is any name to resolve, for clusters that do not resolve it.
func (j *job) hasNames(t *target) bool {
	return len(j.c.Endpoints(t.service.ServiceKey).All) > 0
}

func (j *job) refreshRate() *durationpb.Duration {
	if d := j.mesh.Config.GetDnsRefreshRate(); d != nil {
		return d
	}
	return durationpb.New(defaultRefreshRate)
}

func (j *job) jitter() *durationpb.Duration {
	if d, err := time.ParseDuration(j.set.Raw["PILOT_DNS_JITTER_DURATION"]); err == nil {
		return durationpb.New(d)
	}
	return durationpb.New(defaultJitter)
}

func (j *job) resolver() *corev3.TypedExtensionConfig {
	queries := uint64(defaultMaxQueries)
	if n, err := strconv.ParseUint(j.set.Raw["PILOT_DNS_CARES_UDP_MAX_QUERIES"], 10, 32); err == nil {
		queries = n
	}
	return &corev3.TypedExtensionConfig{
		Name:        nameCares,
		TypedConfig: j.pack(&caresv3.CaresDnsResolverConfig{UdpMaxQueries: wrapperspb.UInt32(uint32(queries))}),
	}
}
