package model

// RuleLookup finds the destination rule that applies to a client of a service.
type RuleLookup struct {
	// Candidates is what Reader.DestinationRules returned for the service's host.
	Candidates []*DestinationRule
	// Root and Service are the root namespace and the service's; Service may be empty if it is not known.
	Root, Service string
	// Inbound lookups are for the service's own proxies: rules with a selector do not count.
	Inbound bool
}

// Pick returns the rule that applies to a proxy in namespace client, or nil. It calls labels, for the proxy's labels,
// only if a rule with a selector is in question.
func (l *RuleLookup) Pick(client string, labels func() map[string]string) *DestinationRule {
	var plain *DestinationRule
	for _, d := range l.step(client) {
		if d.Selector == nil {
			plain = d // the last one counts
		} else if !l.Inbound && d.Namespace == client && LabelsMatch(d.Selector, labels()) {
			return d
		}
	}
	return plain
}

// step returns the rules of the first place that has some: the client's namespace, the service's, the root namespace.
// Rules of different places are never merged.
func (l *RuleLookup) step(client string) []*DestinationRule {
	own := PoolLocal
	if client == l.Root {
		own = PoolPrivate
	}
	if list := l.pool(client, own); len(list) > 0 {
		return list
	}
	for _, ns := range [2]string{l.Service, l.Root} {
		var allowed []*DestinationRule
		for _, d := range l.pool(ns, PoolExported) {
			if d.ExportTo.Allows(client) {
				allowed = append(allowed, d)
			}
		}
		if len(allowed) > 0 {
			return allowed
		}
	}
	return nil
}

// pool returns a namespace's rules of a pool for the most specific host that has any. That host is chosen before
// exportTo is looked at: a rule that is not exported hides the wider ones of its namespace.
func (l *RuleLookup) pool(namespace string, pool RulePool) []*DestinationRule {
	var out []*DestinationRule
	for _, d := range l.Candidates {
		if d.Namespace != namespace || d.Pools&pool == 0 {
			continue
		}
		if len(out) > 0 && d.Host != out[0].Host {
			break
		}
		out = append(out, d)
	}
	return out
}

// maxNamespaces bounds how many namespaces Everywhere compares.
const maxNamespaces = 16

// Everywhere returns the rule that applies to every client whatever its namespace and labels, and whether there is such
// a common answer. It lets clients of all namespaces share one result.
func (l *RuleLookup) Everywhere() (*DestinationRule, bool) {
	// Namespaces that nothing names are all alike: one that cannot exist stands for them.
	special := map[string]struct{}{"\x00": {}, l.Root: {}, l.Service: {}}
	for _, d := range l.Candidates {
		special[d.Namespace] = struct{}{}
		for ns := range d.ExportTo.Namespaces {
			special[ns] = struct{}{}
		}
		if len(special) > maxNamespaces {
			return nil, false
		}
	}
	var common *DestinationRule
	first := true
	for ns := range special {
		asked := false
		d := l.Pick(ns, func() map[string]string { asked = true; return nil })
		if asked || !first && d != common {
			return nil, false
		}
		common, first = d, false
	}
	return common, true
}
