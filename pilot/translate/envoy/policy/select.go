package policy

import (
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// dryRunAnnotation marks a policy that is evaluated but not enforced.
const dryRunAnnotation = "istio.io/dry-run"

// rules is an AuthorizationPolicy that applies to the proxy.
type rules struct {
	namespace, name string
	dryRun          bool
	spec            *security.AuthorizationPolicy
}

// Set is the policies that apply to a proxy. It belongs to one computation.
type Set struct {
	c        *view.Context
	filters  *filter.Set
	stock    bool
	tunnel   bool // for connections that come out of an HBONE tunnel
	grpc     bool // for gRPC servers, which know less than Envoy
	domains  trust
	byAction map[security.AuthorizationPolicy_Action][]rules
}

// New selects the policies of the context's proxy. Nothing is asked of the proxy if there are none.
func New(c *view.Context, filters *filter.Set) *Set {
	s := &Set{
		c: c, filters: filters, stock: c.Stock(), domains: newTrust(c.Mesh().Config),
		byAction: map[security.AuthorizationPolicy_Action][]rules{},
	}
	for _, o := range s.objects(model.KindAuthorizationPolicy) {
		spec, ok := o.Spec.(*security.AuthorizationPolicy)
		if !ok || len(spec.GetTargetRefs()) > 0 || spec.GetTargetRef() != nil || !s.selects(spec.GetSelector().GetMatchLabels()) {
			continue
		}
		s.byAction[spec.GetAction()] = append(s.byAction[spec.GetAction()], rules{
			namespace: o.Namespace, name: o.Name, spec: spec,
			dryRun: strings.EqualFold(o.Annotations[dryRunAnnotation], "true"),
		})
	}
	return s
}

// objects returns the objects of a kind in the root namespace and in the proxy's.
func (s *Set) objects(k model.Kind) []*model.Object {
	if !s.c.HasObjects(k) {
		return nil
	}
	root, own := s.c.Mesh().RootNamespace(), s.c.ProxyNamespace()
	var out []*model.Object
	if root != "" {
		out = append(out, s.c.Objects(k, root)...)
	}
	if own != root {
		out = append(out, s.c.Objects(k, own)...)
	}
	return out
}

func (s *Set) selects(match map[string]string) bool {
	return len(match) == 0 || model.LabelsMatch(match, s.c.Labels())
}
