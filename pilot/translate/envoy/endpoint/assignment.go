package endpoint

import (
	"cmp"
	"math"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// Request says which assignment is wanted.
type Request struct {
	// Cluster is the cluster's name, and Name the same in parts.
	Cluster string
	Name    traffic.Name
	Service *model.Service
	Port    *model.Port
	Rule    *model.DestinationRule
	// Policy is the policy in force for the cluster.
	Policy traffic.Policy
	// DNS is set for assignments inside clusters whose endpoints are names.
	DNS bool
}

// Assignment returns the endpoints of a cluster as the proxy is to use them.
func Assignment(c *view.Context, q *Request) *endpointv3.ClusterLoadAssignment {
	out := &endpointv3.ClusterLoadAssignment{ClusterName: q.Cluster}
	b := newBuilder(c, q)
	for _, e := range c.Endpoints(q.Service.ServiceKey).All {
		if b.wanted(e) {
			b.add(e)
		}
	}
	slices.SortFunc(b.groups, func(x, y *group) int { return cmp.Compare(x.locality, y.locality) })
	for _, g := range b.groups {
		if b.sendsHBONE {
			g.tunnelsFirst()
		}
		g.putGateways()
	}
	if q.Name.DNAT {
		b.keepMutual()
	}
	b.prefer()
	for _, g := range b.groups {
		out.Endpoints = append(out.Endpoints, g.message())
	}
	return out
}

// builder makes one assignment.
type builder struct {
	c        *view.Context
	q        *Request
	mesh     *model.Mesh
	labels   map[string]string // of the subset
	locality traffic.Locality
	sendSick bool
	dual     bool
	mtls     mtls
	// sendsHBONE is set for proxies that tunnel.
	sendsHBONE bool
	// ownCluster is set when endpoints of other clusters do not count.
	ownCluster bool
	networks   networks
	groups     []*group
}

// group is the endpoints of one locality, and later of one priority in it.
type group struct {
	locality string
	sources  []*model.Endpoint
	members  []*endpointv3.LbEndpoint
	gateways []weighedGateway // by which endpoints of other networks are reached
	// weight is the sum of the members' weights, or what a distribution gives the group.
	weight   uint32
	priority uint32
}

func newBuilder(c *view.Context, q *Request) *builder {
	b := &builder{c: c, q: q, mesh: c.Mesh(), dual: c.Settings().DualStack}
	b.labels = q.Rule.Subset(q.Name.Subset).GetLabels()
	b.locality = q.Policy.Locality(q.Service, b.mesh.Config)
	b.sendSick = q.Policy.SendsUnhealthy(c.Settings(), q.Service)
	b.ownCluster = clusterLocal(q.Service.Host, c.Settings().Domain, b.mesh.Config)
	b.mtls = newMTLS(c, q)
	b.sendsHBONE = !q.DNS && c.KnowsHBONE() && c.Generator() != view.GRPC && c.SendsHBONE()
	b.networks = newNetworks(c.NetworkGateways())
	return b
}

func (b *builder) add(e *model.Endpoint) {
	i := slices.IndexFunc(b.groups, func(g *group) bool { return g.locality == e.Locality })
	if i < 0 {
		i = len(b.groups)
		b.groups = append(b.groups, &group{locality: e.Locality})
	}
	if gateways := b.remote(e); len(gateways) > 0 {
		b.divert(b.groups[i], e, gateways)
		return
	}
	b.groups[i].put(e, b.member(e))
}

func (g *group) put(e *model.Endpoint, m *endpointv3.LbEndpoint) {
	g.sources = append(g.sources, e)
	g.members = append(g.members, m)
	g.weight = saturate(uint64(g.weight) + uint64(m.GetLoadBalancingWeight().GetValue()))
}

func saturate(n uint64) uint32 {
	return uint32(min(n, math.MaxUint32)) //nolint:gosec // bounded just here
}

func (g *group) message() *endpointv3.LocalityLbEndpoints {
	out := &endpointv3.LocalityLbEndpoints{
		Locality: localityMessage(g.locality), LbEndpoints: g.members, Priority: g.priority,
	}
	if g.weight > 0 {
		out.LoadBalancingWeight = wrapperspb.UInt32(g.weight)
	}
	return out
}

// localityMessage returns the locality of a label "region/zone/subzone".
func localityMessage(label string) *corev3.Locality {
	region, rest, _ := strings.Cut(label, "/")
	zone, subzone, _ := strings.Cut(rest, "/")
	return &corev3.Locality{Region: region, Zone: zone, SubZone: subzone}
}
