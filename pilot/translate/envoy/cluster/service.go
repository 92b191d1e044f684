package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// target is one outbound cluster in the making: a service port, or a subset of it.
type target struct {
	name        traffic.Name
	service     *model.Service
	port        *model.Port
	rule        *model.DestinationRule // may be nil
	subset      *networking.Subset     // nil for the port itself
	policy      traffic.Policy
	originalDst bool // whatever the service's resolution, by the rule
}

// sni is the server name that the mesh's servers know the target by.
func (t *target) sni() string {
	n := t.name
	n.DNAT = true
	return n.String()
}

// service makes the clusters of a service: for each visible port the port's own, then its subsets'.
func (j *job) service(u serviceUnit) ([]*translate.Message, error) {
	s := j.c.Service(model.ServiceKey{Host: u.Host, Namespace: u.Namespace})
	if s == nil {
		return nil, nil
	}
	rule := j.c.DestinationRule(s.Host, s.Namespace)
	var out []*translate.Message
	for _, p := range s.Ports {
		if p.Protocol == model.UDP || !u.has(p.Number) {
			continue
		}
		out = append(out, j.port(s, p, rule)...)
	}
	return out, nil
}

func (j *job) port(s *model.Service, p *model.Port, rule *model.DestinationRule) []*translate.Message {
	t := &target{
		name:    traffic.Name{Direction: traffic.Outbound, Port: p.Number, Host: s.Host},
		service: s, port: p, rule: rule, policy: traffic.For(rule, p.Number, j.mesh.Config),
	}
	if s.Resolution == model.DynamicDNS {
		return j.forwardProxy(t)
	}
	cl := j.outbound(t)
	if cl == nil {
		return nil // the names it consists of are not there: no subset has any either
	}
	subsets := subsetsOf(rule)
	out := make([]*translate.Message, 1, 1+len(subsets))
	out[0] = j.message(cl)
	seen := make(map[string]struct{}, len(subsets))
	for _, sub := range subsets {
		if _, twice := seen[sub.GetName()]; twice || sub.GetName() == "" {
			continue
		}
		seen[sub.GetName()] = struct{}{}
		ts := *t
		ts.name.Subset, ts.subset = sub.GetName(), sub
		ts.policy = t.policy.Subset(sub.GetTrafficPolicy(), p.Number)
		if cl := j.outbound(&ts); cl != nil {
			out = append(out, j.message(cl))
		}
	}
	return out
}

// message returns a finished cluster, or why it cannot be made: that is no fault of the others.
func (j *job) message(cl *clusterv3.Cluster) *translate.Message {
	m := &translate.Message{Name: cl.GetName(), Proto: cl, Err: j.err}
	j.err = nil
	return m
}

func subsetsOf(rule *model.DestinationRule) []*networking.Subset {
	if rule == nil {
		return nil
	}
	return rule.Spec.GetSubsets()
}

// outbound makes one cluster; nil if it would consist of names of which there are none.
func (j *job) outbound(t *target) *clusterv3.Cluster {
	name := t.name.String()
	pattern := j.mesh.Config.GetOutboundClusterStatName()
	cl := j.bare(name, traffic.StatName(pattern, name, t.service, t.port, t.name.Subset, 0))
	t.originalDst = t.policy.OriginalDestination()
	if !j.resolve(cl, t) {
		return nil
	}
	o := j.protocol(t.port.Protocol, t.policy.Pool, true)
	j.pool(cl, &o, &t.policy)
	cl.OutlierDetection = outlier(t.policy.Outlier)
	o.errorCodes = t.policy.Outlier.GetOutlierDetectionHttpErrorCodes()
	j.balance(cl, t.service, t.port, &t.policy, t.subset != nil)
	j.secure(cl, t, &o)
	j.setOptions(cl, &o)
	cl.Metadata = j.metadata(t)
	cl.Filters = j.exchangeFilters()
	return cl
}

// metadata says what the cluster stands for (translation-l4 §2.9).
func (j *job) metadata(t *target) *corev3.Metadata {
	f := fields{}
	if j.set.EnableTelemetryLabel {
		f.services(t.service)
	}
	f.rule(t.rule)
	if t.service.MeshExternal && t.subset == nil {
		f.flag("external")
	}
	if j.c.KnowsHBONE() && j.takesHBONE(t.service) {
		f.flag("disable_mx")
	}
	if t.subset != nil {
		f.text("subset", t.subset.GetName())
	}
	if overridesALPN(&t.policy) {
		f.text("alpn_override", "false")
	}
	return f.message()
}

// resolve says where the cluster's endpoints come from (translation-l4 §2.2). It reports false if there are none and
// the cluster makes no sense without.
func (j *job) resolve(cl *clusterv3.Cluster, t *target) bool {
	s := t.service
	switch {
	case t.originalDst:
		discover(cl, clusterv3.Cluster_ORIGINAL_DST)
		if s.Resolution == model.DNSLB || s.Resolution == model.DNSRoundRobin {
			return j.hasNames(t)
		}
	case s.Resolution == model.DNSLB, s.Resolution == model.DNSRoundRobin:
		return j.dns(cl, t)
	case s.Resolution == model.Passthrough && !j.asksForHeadless(s):
		discover(cl, clusterv3.Cluster_ORIGINAL_DST)
		if n := t.port.TargetPort; n != 0 && n != t.port.Number && s.Registry == model.External {
			cl.LbConfig = &clusterv3.Cluster_OriginalDstLbConfig_{
				OriginalDstLbConfig: &clusterv3.Cluster_OriginalDstLbConfig{UpstreamPortOverride: uint32Value(n)},
			}
		}
	default:
		j.edsType(cl)
	}
	return true
}

// asksForHeadless tells whether the proxy gets the endpoints of a service whose callers address them themselves.
func (j *job) asksForHeadless(s *model.Service) bool {
	return j.kind == view.Router || s.Registry == model.Kubernetes && j.set.EnableEDSForHeadless
}
