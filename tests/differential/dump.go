package differential

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
)

// sameObjects compares what a source delivered with what was written. What a cluster must add does not count: the uid,
// which no object keeps, the resource version and the generation, and of a Service the IP families, which only a cluster
// knows, and the default of internalTrafficPolicy.
func sameObjects(got, want map[model.ObjectKey]*model.Object) error {
	for _, k := range sortedKeys(want) {
		o := got[k]
		if o == nil {
			return fmt.Errorf("%s is missing", k)
		}
		if x, y := normal(o), normal(want[k]); !convert.Equal(x, y) {
			return fmt.Errorf("%s differs: got\n%s\nwant\n%s", k, jsonText(x), jsonText(y))
		}
	}
	for _, k := range sortedKeys(got) {
		if want[k] == nil {
			return fmt.Errorf("%s is there, and nobody wrote it", k)
		}
	}
	return nil
}

func sortedKeys(m map[model.ObjectKey]*model.Object) []model.ObjectKey {
	return slices.SortedFunc(maps.Keys(m), func(a, b model.ObjectKey) int {
		if a.String() < b.String() {
			return -1
		}
		return 1
	})
}

func normal(o *model.Object) *model.Object {
	c := *o
	c.Generation, c.ResourceVersion, c.Origin = 0, "", ""
	if s, ok := o.Spec.(*corev1.Service); ok {
		s = s.DeepCopy()
		s.Spec.IPFamilies, s.Spec.IPFamilyPolicy = nil, nil
		if p := s.Spec.InternalTrafficPolicy; p != nil && *p == corev1.ServiceInternalTrafficPolicyCluster {
			s.Spec.InternalTrafficPolicy = nil
		}
		c.Spec = s
	}
	return &c
}

func jsonText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// dump writes everything that generators can ask of a PushContext made of objects, by question.
func dump(pc *model.PushContext, objects map[model.ObjectKey]*model.Object) map[string]string {
	r := model.NewReader(pc, nil)
	out := map[string]string{"tested labels": jsonText(slices.Sorted(maps.Keys(r.TestedLabels())))}
	spaces := map[string]struct{}{"nowhere": {}}
	for k := range objects {
		spaces[k.Namespace] = struct{}{}
	}
	asked := map[string]struct{}{}
	for ns := range spaces {
		dumpNamespace(r, ns, out)
		for _, s := range r.NamespaceServices(ns) {
			asked[s.Host] = struct{}{}
		}
	}
	for _, h := range append(hosts(), slices.Collect(maps.Keys(asked))...) {
		out["services of "+h] = jsonText(r.ServicesOfHost(h))
		out["rules of "+h] = jsonText([]any{rules(r.VirtualServicesOfHost(h)), destinationRules(r.DestinationRules(h))})
		for _, s := range r.ServicesOfHost(h) {
			out["service "+s.String()] = jsonText([]any{r.Endpoints(s.ServiceKey), r.ServiceAccounts(s.ServiceKey), r.Aliases(s.ServiceKey)})
			for _, e := range r.Endpoints(s.ServiceKey).All {
				for _, ip := range e.Addresses {
					out["workloads at "+ip] = jsonText(r.WorkloadsByIP(ip))
				}
			}
		}
	}
	return out
}

func dumpNamespace(r *model.Reader, ns string, out map[string]string) {
	exported, public := r.VisibleServices(ns)
	out["visible in "+ns] = jsonText([]any{exported, public})
	out["services in "+ns] = jsonText(r.NamespaceServices(ns))
	own, all := r.VisibleVirtualServices(ns)
	out["virtual services in "+ns] = jsonText([]any{rules(own), rules(all)})
	var scopes, policies []any
	for _, s := range r.Sidecars(ns) {
		scopes = append(scopes, s.Row(), s.Selector, s.Spec)
	}
	for _, p := range r.PeerAuthentications(ns) {
		policies = append(policies, p.Row(), p.Spec)
	}
	for _, kind := range []model.Kind{model.KindAuthorizationPolicy, model.KindTelemetry} {
		for _, o := range r.Objects(kind, ns) {
			policies = append(policies, normal(o))
		}
	}
	out["sidecars in "+ns], out["policies in "+ns] = jsonText(scopes), jsonText(policies)
}

func rules(list []*model.VirtualService) []any {
	var out []any
	for _, v := range list {
		out = append(out, v.Row(), v.Created, v.Hosts, v.Gateways, v.ExportTo, v.Delegates, v.Spec)
	}
	return out
}

func destinationRules(list []*model.DestinationRule) []any {
	var out []any
	for _, d := range list {
		out = append(out, d.Namespace, d.Host, d.ExportTo, d.Private, d.Selector, d.Pools, d.Spec)
	}
	return out
}
