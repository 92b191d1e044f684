package model

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/proto"
)

// RulePool says in which lookups a destination rule takes part. Rules of one host and namespace are merged within
// each pool by itself.
type RulePool uint8

// The pools.
const (
	// PoolLocal rules apply to proxies of the rule's own namespace (the root namespace's proxies excepted).
	PoolLocal RulePool = 1 << iota
	// PoolExported rules apply to clients of services in the rule's namespace, and to all if that is the root
	// namespace, as far as ExportTo allows.
	PoolExported
	// PoolPrivate rules are those of PoolLocal that are exported to their own namespace only; of these alone come a
	// root namespace's rules for its own proxies.
	PoolPrivate
)

// ruleInput is one destination rule as its user wrote it.
type ruleInput struct {
	object   *Object
	spec     *networking.DestinationRule
	selector map[string]string // nil if there is none
	exports  map[string]struct{}
	visible  Visibility
	pools    RulePool
}

// newRuleInput reads o. A rule with a workload selector is never exported, whatever it says.
func newRuleInput(pc *PushContext, o *Object) *ruleInput {
	in := &ruleInput{object: o, exports: map[string]struct{}{}}
	in.spec, _ = o.Spec.(*networking.DestinationRule)
	if s := in.spec.GetWorkloadSelector(); s != nil {
		in.selector = s.GetMatchLabels()
		if in.selector == nil {
			in.selector = map[string]string{}
		}
		in.exports["."] = struct{}{}
	} else {
		for _, e := range in.spec.GetExportTo() {
			in.exports[e] = struct{}{}
		}
	}
	_, public := in.exports["*"]
	_, dot := in.exports["."]
	_, own := in.exports[o.Namespace]
	private := len(in.exports) == 1 && (dot || own)
	if len(in.exports) == 0 {
		private = slices.Contains(pc.mesh.DefaultDestinationRuleExportTo, ".")
		public = !private
	}
	if len(in.exports) == 0 || public || dot || own {
		in.pools |= PoolLocal
	}
	if private {
		in.pools |= PoolPrivate
	} else {
		in.pools |= PoolExported
	}
	in.visible = Visibility{Public: public}
	if !public {
		in.visible = ParseExportTo(slices.Collect(maps.Keys(in.exports)), []string{"."}, o.Namespace)
	}
	return in
}

// poolRules merges one namespace's rules of a host, which are in order of selection, pool by pool. Pools that hold the
// same rules share their result.
func poolRules(host string, inputs []*ruleInput, byExport bool) []*DestinationRule {
	var members [3][]*ruleInput
	pools := [3]RulePool{PoolLocal, PoolExported, PoolPrivate}
	for i, p := range pools {
		for _, in := range inputs {
			if in.pools&p != 0 {
				members[i] = append(members[i], in)
			}
		}
	}
	var out []*DestinationRule
	for i := range pools {
		pool, seen := pools[i], false
		for j := range pools {
			if j != i && slices.Equal(members[i], members[j]) {
				pool |= pools[j]
				seen = seen || j < i
			}
		}
		if !seen {
			out = append(out, mergeRules(host, pool, members[i], byExport)...)
		}
	}
	return out
}

// mergeRules merges the members of one pool. byExport keeps rules of different exportTo apart.
func mergeRules(host string, pool RulePool, members []*ruleInput, byExport bool) []*DestinationRule {
	type merged struct {
		*DestinationRule
		first *ruleInput
	}
	var list []merged
	for _, in := range members {
		alone := true
		for _, m := range list {
			into, also := mergeable(m.first, in, byExport)
			if into {
				m.merge(in)
				alone = alone && also
			}
		}
		if alone {
			list = append(list, merged{newRule(host, pool, in), in})
		}
	}
	out := make([]*DestinationRule, len(list))
	for i, m := range list {
		out[i] = m.DestinationRule
	}
	return out
}

// mergeable tells whether in is merged into the entry that began with first, and whether it gets an entry of its own
// all the same.
func mergeable(first, in *ruleInput, byExport bool) (into, also bool) {
	bothSelect := first.selector != nil && in.selector != nil
	bothPlain := first.selector == nil && in.selector == nil
	if bothSelect && !maps.Equal(first.selector, in.selector) {
		return false, true
	}
	if !byExport {
		return bothSelect || bothPlain, false
	}
	if maps.Equal(first.exports, in.exports) {
		return true, false
	}
	if len(first.exports) == 0 || !superset(in.exports, first.exports) {
		return false, true
	}
	return true, !bothPlain
}

func superset(a, b map[string]struct{}) bool {
	for k := range b {
		if _, ok := a[k]; !ok {
			return false
		}
	}
	return true
}

func newRule(host string, pool RulePool, in *ruleInput) *DestinationRule {
	spec, _ := proto.Clone(in.spec).(*networking.DestinationRule)
	spec.Host = host
	spec.Subsets = nil
	d := &DestinationRule{
		Namespace: in.object.Namespace, Host: host, From: []*Object{in.object}, Spec: spec, ExportTo: in.visible,
		Private: in.pools&PoolPrivate != 0, Selector: in.selector, Pools: pool,
	}
	d.addSubsets(in.spec)
	return d
}

// merge takes the subsets of in that have a new name, and its traffic policy if there is none yet.
func (d *DestinationRule) merge(in *ruleInput) {
	d.From = append(d.From, in.object)
	if d.Spec.TrafficPolicy == nil && in.spec.GetTrafficPolicy() != nil {
		d.Spec.TrafficPolicy, _ = proto.Clone(in.spec.GetTrafficPolicy()).(*networking.TrafficPolicy)
	}
	d.addSubsets(in.spec)
}

func (d *DestinationRule) addSubsets(from *networking.DestinationRule) {
	for _, s := range from.GetSubsets() {
		if d.Subset(s.GetName()) != nil {
			continue
		}
		clone, _ := proto.Clone(s).(*networking.Subset)
		d.Spec.Subsets = append(d.Spec.Subsets, clone)
	}
}
