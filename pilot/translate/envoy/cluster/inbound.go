package cluster

import (
	"fmt"
	"slices"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// neverCleaned is the longest interval that Envoy takes: connections to the workload itself are not to be closed for
// being unused.
const neverCleaned = 9223372035 * time.Second

// portUnit is the cluster for a port of the proxy's own workload, as its services say.
type portUnit struct{ Target uint32 }

// ingressUnit is the cluster for an ingress listener of the proxy's Sidecar, by its port.
type ingressUnit struct{ Port uint32 }

// InboundSlot returns the clusters that a sidecar hands requests for its own workload to.
func InboundSlot() *translate.Slot {
	m := newMaker()
	return &translate.Slot{
		Name: "cds/inbound", TypeURL: translate.ClusterType, Units: inboundUnits,
		Build: func(c *view.Context, unit any) ([]*translate.Message, error) {
			j := m.job(c)
			switch u := unit.(type) {
			case portUnit:
				return j.inboundPort(u)
			case ingressUnit:
				return j.inboundIngress(u)
			case fixedUnit:
				return j.fixed(u)
			}
			return nil, fmt.Errorf("inbound clusters: unknown unit %v", unit)
		},
	}
}

func inboundUnits(c *view.Context) []any {
	if c.Type() != view.Sidecar || c.Generator() == view.GRPC {
		return nil
	}
	var units []any
	add := func(u any) {
		if !slices.Contains(units, u) {
			units = append(units, u)
		}
	}
	taken := map[uint32]bool{}
	var ingress []*networking.IstioIngressListener
	if s := c.Sidecar(); s != nil {
		ingress = s.Spec.GetIngress()
	}
	for _, l := range ingress {
		taken[l.GetPort().GetNumber()] = true
		add(ingressUnit{l.GetPort().GetNumber()})
	}
	// A Sidecar's ingress takes the place of the services, which captured traffic alone reaches.
	if len(ingress) == 0 && c.Interception() != view.None || len(ingress) > 0 && c.Settings().SidecarServiceInboundMerge {
		for _, t := range c.Targets() {
			if !taken[t.TargetPort] {
				add(portUnit{t.TargetPort})
			}
		}
	}
	return append(units, fixedUnit(traffic.InboundPassthrough))
}

// inbound is one inbound cluster in the making.
type inbound struct {
	port     uint32 // where the workload listens, or the ingress listener does
	service  *model.Service
	protocol *model.Port
	// services are those that the port serves under the same service port.
	services []*model.Service
	pools    []*networking.ConnectionPoolSettings // each one set replaces those before
	// address is where the workload is reached; nil means where the connection was going.
	address  *corev3.Address
	loopback bool
}

func (j *job) inboundPort(u portUnit) ([]*translate.Message, error) {
	in := &inbound{port: u.Target}
	if !j.primary(in) {
		return nil, nil
	}
	if j.mesh.Config.GetInboundTrafficPolicy().GetMode() == meshconfig.MeshConfig_InboundTrafficPolicy_LOCALHOST {
		host := "127.0.0.1"
		if j.c.Family() == view.IPv6 {
			host = "::1"
		}
		in.address, in.loopback = translate.SocketAddress(host, u.Target), true
	}
	if s := j.c.Sidecar(); s != nil {
		in.pools = append(in.pools, s.Spec.GetInboundConnectionPool())
	}
	return j.inboundCluster(in), nil
}

// primary finds the services of the workload's port: the oldest one gives protocol and policy. UDP ports count where
// there is no other.
func (j *job) primary(in *inbound) bool {
	for _, t := range j.c.Targets() {
		if t.TargetPort != in.port {
			continue
		}
		if in.service == nil || in.protocol.Protocol == model.UDP && t.Port.Protocol != model.UDP {
			in.service, in.protocol, in.services = t.Service, t.Port, nil
		}
		same := func(s *model.Service) bool { return s.Host == t.Service.Host }
		if t.Port.Number == in.protocol.Number && !slices.ContainsFunc(in.services, same) {
			in.services = append(in.services, t.Service)
		}
	}
	return in.service != nil
}

func (j *job) inboundCluster(in *inbound) []*translate.Message {
	name := traffic.InboundName(in.port)
	cl := j.bare(name, traffic.StatName(j.mesh.Config.GetInboundClusterStatName(), name, in.service, in.protocol, "", in.port))
	if in.address == nil {
		discover(cl, clusterv3.Cluster_ORIGINAL_DST)
		cl.LbPolicy = clusterv3.Cluster_CLUSTER_PROVIDED
		cl.CleanupInterval = durationpb.New(neverCleaned)
	} else {
		discover(cl, clusterv3.Cluster_STATIC)
		cl.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
				Endpoint: &endpointv3.Endpoint{Address: in.address},
			}}},
		}}}
	}
	if !in.loopback {
		cl.UpstreamBindConfig = bindConfig(j.c.Family(), j.set.DualStack)
	}
	rule := j.c.InboundDestinationRule(in.service.Host, in.service.Namespace)
	policy := traffic.ForPort(rule, in.protocol.Number)
	if policy.Pool == nil {
		policy.Pool = j.mesh.Config.GetDefaultTrafficPolicy().GetConnectionPool()
	}
	for _, p := range in.pools {
		if p != nil {
			policy.Pool = p
		}
	}
	o := j.protocol(in.protocol.Protocol, nil, false)
	j.pool(cl, &o, &policy)
	cl.CommonLbConfig = j.emptyLB
	j.setOptions(cl, &o)
	f := fields{}
	if j.set.EnableTelemetryLabel && !in.service.MeshExternal {
		f.services(in.services...)
	}
	if rule != nil && rule.Spec.GetTrafficPolicy() != nil {
		f.rule(rule)
	}
	cl.Metadata = f.message()
	return []*translate.Message{{Name: name, Proto: cl}}
}

// bindConfig is the address that connections to the workload come from, so that they are not captured again.
func bindConfig(family view.Family, both bool) *corev3.BindConfig {
	address := func(host string) *corev3.SocketAddress {
		return &corev3.SocketAddress{Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 0}}
	}
	switch {
	case family == view.IPv6:
		return &corev3.BindConfig{SourceAddress: address("::6")}
	case family == view.DualStack && both:
		return &corev3.BindConfig{
			SourceAddress:        address("127.0.0.6"),
			ExtraSourceAddresses: []*corev3.ExtraSourceAddress{{Address: address("::6")}},
		}
	}
	return &corev3.BindConfig{SourceAddress: address("127.0.0.6")}
}
