package model

import (
	"slices"
	"strings"

	extensions "istio.io/api/extensions/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	proxyconfig "istio.io/api/networking/v1beta1"
	security "istio.io/api/security/v1beta1"
	telemetry "istio.io/api/telemetry/v1alpha1"
)

// alwaysTestedLabels are the keys that are tested whatever the users' objects say: by locality settings, and by
// policies that target a gateway.
func alwaysTestedLabels() []string {
	return []string{
		"topology.kubernetes.io/region", "topology.kubernetes.io/zone", "topology.istio.io/subzone",
		"topology.istio.io/network", "topology.istio.io/cluster", "gateway.networking.k8s.io/gateway-name",
	}
}

// deriveTestedLabels counts how many objects test each label key, and reports a change only if a key comes or goes.
func (b *Builder) deriveTestedLabels(c *commit) {
	differs := c.prev.testedLabels == nil
	count := func(keys []string, by int) {
		for _, k := range keys {
			was := b.labels[k]
			if b.labels[k] = was + by; was+by == 0 {
				delete(b.labels, k)
			}
			differs = differs || was == 0 || was+by == 0
		}
	}
	for _, ch := range c.changes {
		count(labelKeys(ch.new), 1)
		count(labelKeys(ch.old), -1)
	}
	if keys := priorityKeys(c.next.mesh.Config.GetLocalityLbSetting()); !slices.Equal(keys, b.meshKeys) {
		count(keys, 1)
		count(b.meshKeys, -1)
		b.meshKeys = keys
	}
	if !differs {
		return
	}
	next := make(map[string]struct{}, len(b.labels))
	for k := range b.labels {
		next[k] = struct{}{}
	}
	if c.prev.testedLabels != nil && sameKeys(next, c.prev.testedLabels) {
		return
	}
	c.next.testedLabels = next
	c.touch(TableTestedLabels, "")
}

func sameKeys(a, b map[string]struct{}) bool { return len(a) == len(b) && superset(a, b) }

// labelKeys returns the label keys of proxies that o tests, with repetitions.
func labelKeys(o *Object) []string {
	if o == nil {
		return nil
	}
	switch s := o.Spec.(type) {
	case *networking.DestinationRule:
		return ruleLabelKeys(s)
	case *networking.VirtualService:
		return sourceLabelKeys(s)
	case *networking.Sidecar, *networking.EnvoyFilter, *networking.Gateway, *proxyconfig.ProxyConfig,
		*security.PeerAuthentication, *security.RequestAuthentication, *security.AuthorizationPolicy,
		*telemetry.Telemetry, *extensions.WasmPlugin, *extensions.TrafficExtension:
		return keysOf(selectorOf(s))
	}
	return nil
}

func keysOf(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	return out
}

// priorityKeys returns the label keys of a failover priority list, whose entries are "key" or "key=value".
func priorityKeys(l *networking.LocalityLoadBalancerSetting) []string {
	var out []string
	for _, e := range l.GetFailoverPriority() {
		key, _, _ := strings.Cut(e, "=")
		out = append(out, key)
	}
	return out
}

func ruleLabelKeys(d *networking.DestinationRule) []string {
	out := keysOf(d.GetWorkloadSelector().GetMatchLabels())
	policy := func(p *networking.TrafficPolicy) {
		balancers := []*networking.LoadBalancerSettings{p.GetLoadBalancer()}
		for _, port := range p.GetPortLevelSettings() {
			balancers = append(balancers, port.GetLoadBalancer())
		}
		for _, lb := range balancers {
			out = append(out, priorityKeys(lb.GetLocalityLbSetting())...)
			for _, e := range lb.GetZoneAwareLbSetting().GetFailoverPriority() {
				key, _, _ := strings.Cut(e, "=")
				out = append(out, key)
			}
		}
	}
	policy(d.GetTrafficPolicy())
	for _, s := range d.GetSubsets() {
		policy(s.GetTrafficPolicy())
	}
	return out
}

func sourceLabelKeys(v *networking.VirtualService) []string {
	var out []string
	for _, r := range v.GetHttp() {
		for _, m := range r.GetMatch() {
			out = append(out, keysOf(m.GetSourceLabels())...)
		}
	}
	for _, r := range v.GetTcp() {
		for _, m := range r.GetMatch() {
			out = append(out, keysOf(m.GetSourceLabels())...)
		}
	}
	for _, r := range v.GetTls() {
		for _, m := range r.GetMatch() {
			out = append(out, keysOf(m.GetSourceLabels())...)
		}
	}
	return out
}
