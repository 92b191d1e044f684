package model

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// deriveDestinationRules merges anew the rules of every host whose rules changed.
func (b *Builder) deriveDestinationRules(c *commit) {
	dirty := rowSet{}
	for _, ch := range c.changes {
		if ch.key.Kind != KindDestinationRule {
			continue
		}
		if host := ruleHost(ch.old, c.next.settings.Domain); host != "" {
			b.ruleRows.drop(host, ch.key.Row())
			dirty.add(host)
		}
		if host := ruleHost(ch.new, c.next.settings.Domain); host != "" {
			b.ruleRows.add(host, ch.key.Row())
			dirty.add(host)
		}
	}
	if c.mesh && !slices.Equal(c.prev.mesh.DefaultDestinationRuleExportTo, c.next.mesh.DefaultDestinationRuleExportTo) {
		for host := range b.ruleRows {
			dirty.add(host)
		}
	}
	if len(dirty) == 0 {
		return
	}
	x := c.next.rules.Txn()
	wildcards := false
	for host := range dirty {
		_, had := x.Get(host)
		list := mergedRules(c.next, host, b.ruleRows[host])
		setRows(x, host, list)
		c.touch(TableDestinationRule, host)
		wildcards = wildcards || IsWildcard(host) && had != (len(list) > 0)
	}
	c.next.rules = x.Commit()
	if wildcards {
		c.next.wildcardRules = b.wildcardRuleHosts()
		c.touch(TableWildcardDR, "")
	}
}

func (b *Builder) wildcardRuleHosts() []string {
	var out []string
	for host := range b.ruleRows {
		if IsWildcard(host) {
			out = append(out, host)
		}
	}
	slices.SortFunc(out, MoreSpecific)
	return out
}

// ruleHost returns the full name of the host that o is about, "" if o is no usable rule.
func ruleHost(o *Object, domain string) string {
	if o == nil {
		return ""
	}
	spec, _ := o.Spec.(*networking.DestinationRule)
	return ResolveShortName(spec.GetHost(), o.Namespace, domain)
}

// mergedRules returns the rules of host: by namespace, and within it in the order of selection.
func mergedRules(pc *PushContext, host string, rows rowSet) []*DestinationRule {
	byNamespace := map[string][]*ruleInput{}
	for row := range rows {
		o, ok := pc.objects[KindDestinationRule].Get(row)
		if !ok {
			continue
		}
		byNamespace[o.Namespace] = append(byNamespace[o.Namespace], newRuleInput(pc, o))
	}
	var out []*DestinationRule
	for _, ns := range slices.Sorted(maps.Keys(byNamespace)) {
		inputs := byNamespace[ns]
		slices.SortFunc(inputs, compareRules)
		out = append(out, poolRules(host, inputs, pc.settings.EnhancedDestinationRuleMerge)...)
	}
	return out
}

// compareRules puts rules with a workload selector first, then goes by creation.
func compareRules(a, b *ruleInput) int {
	if (a.spec.GetWorkloadSelector() != nil) != (b.spec.GetWorkloadSelector() != nil) {
		if a.spec.GetWorkloadSelector() != nil {
			return -1
		}
		return 1
	}
	return Older(a.object, b.object)
}
