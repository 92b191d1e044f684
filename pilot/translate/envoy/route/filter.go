package route

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// ruleFilter decides which matches of a rule concern the proxy at all. It reads the proxy's labels and namespace only
// for matches that test them.
type ruleFilter struct {
	c        *view.Context
	gateways []string
	port     uint32
}

// newRuleFilter returns the filter for sidecars.
func newRuleFilter(c *view.Context, port uint32) *ruleFilter {
	return &ruleFilter{c: c, gateways: []string{model.MeshGateway}, port: port}
}

func (f *ruleFilter) pass(m *networking.HTTPMatchRequest) bool {
	if m == nil {
		return true
	}
	if m.GetPort() != 0 && m.GetPort() != f.port {
		return false
	}
	if len(m.GetGateways()) > 0 {
		// Naming gateways switches the tests of the source off.
		return slices.ContainsFunc(m.GetGateways(), func(g string) bool { return slices.Contains(f.gateways, g) })
	}
	if len(m.GetSourceLabels()) > 0 && !model.LabelsMatch(m.GetSourceLabels(), f.c.Labels()) {
		return false
	}
	return m.GetSourceNamespace() == "" || m.GetSourceNamespace() == f.c.ProxyNamespace()
}

// any tells whether v has a route for the proxy.
func (f *ruleFilter) any(v *model.VirtualService) bool {
	for _, r := range v.Spec.GetHttp() {
		if len(r.GetMatch()) == 0 || slices.ContainsFunc(r.GetMatch(), f.pass) {
			return true
		}
	}
	return false
}
