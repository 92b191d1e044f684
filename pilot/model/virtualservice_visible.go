package model

import (
	"maps"
	"slices"
)

// visibleEdits collects the changes of the lists of visible rules.
type visibleEdits struct {
	public          listEdit[*VirtualService]
	exported, hosts map[string]*listEdit[*VirtualService]
}

// each calls f with the edit of every list that v stands in. Delegates stand in none.
func (e *visibleEdits) each(v *VirtualService, f func(*listEdit[*VirtualService])) {
	if len(v.Hosts) == 0 {
		return
	}
	for _, h := range slices.Compact(slices.Sorted(slices.Values(v.Hosts))) {
		f(editOf(e.hosts, h))
	}
	if v.ExportTo.Public {
		f(&e.public)
		return
	}
	for ns := range v.ExportTo.Namespaces {
		f(editOf(e.exported, ns))
	}
}

func editOf(edits map[string]*listEdit[*VirtualService], name string) *listEdit[*VirtualService] {
	e := edits[name]
	if e == nil {
		e = &listEdit[*VirtualService]{}
		edits[name] = e
	}
	return e
}

func (e *visibleEdits) commit(c *commit) {
	older := func(a, b *VirtualService) int { return Older(a.Object, b.Object) }
	if !e.public.empty() {
		c.next.publicVS = e.public.apply(c.prev.publicVS, older)
		c.touch(TableVisibleVS, "*")
	}
	x := c.next.exportedVS.Txn()
	for ns, edit := range e.exported {
		list, _ := x.Get(ns)
		setRows(x, ns, edit.apply(list, ownFirst(ns)))
		c.touch(TableVisibleVS, ns)
	}
	c.next.exportedVS = x.Commit()
	e.commitHosts(c, older)
}

func (e *visibleEdits) commitHosts(c *commit, older func(a, b *VirtualService) int) {
	x := c.next.hostVS.Txn()
	came, went := map[string]struct{}{}, map[string]struct{}{}
	for host, edit := range e.hosts {
		list, _ := x.Get(host)
		now := edit.apply(list, older)
		setRows(x, host, now)
		c.touch(TableVSHost, host)
		switch {
		case !IsWildcard(host):
		case len(list) == 0 && len(now) > 0:
			came[host] = struct{}{}
		case len(list) > 0 && len(now) == 0:
			went[host] = struct{}{}
		}
	}
	c.next.hostVS = x.Commit()
	if len(came)+len(went) == 0 {
		return
	}
	wild := slices.AppendSeq(slices.Clone(c.prev.wildcardVS), maps.Keys(came))
	wild = slices.DeleteFunc(wild, func(h string) bool { _, gone := went[h]; return gone })
	slices.SortFunc(wild, MoreSpecific)
	c.next.wildcardVS = wild
	c.touch(TableWildcardVS, "")
}

// ownFirst orders what namespace sees: its own private rules, then what others export to it, each by creation.
func ownFirst(namespace string) func(a, b *VirtualService) int {
	return func(a, b *VirtualService) int {
		if own := a.Namespace == namespace; own != (b.Namespace == namespace) {
			if own {
				return -1
			}
			return 1
		}
		return Older(a.Object, b.Object)
	}
}
