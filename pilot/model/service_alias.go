package model

import (
	"reflect"
	"slices"
	"strings"
)

// noteAliases marks the hosts whose aliases may differ now that the services of k do: the host itself, and what its
// names stood for or stand for, to the end of the chain.
func (w *discoveryWork) noteAliases(row string, k ServiceKey, before, after *Service) {
	old, now := aliasTarget(before), aliasTarget(after)
	if old != now {
		if old != "" {
			w.aliasesTo.drop(old, row)
		}
		if now != "" {
			w.aliasesTo.add(now, row)
		}
	}
	if old != now || (before == nil) != (after == nil) {
		w.dirtyAliases.add(k.Host)
	}
	for _, target := range []string{old, now} {
		if target != "" && old != now {
			w.dirtyAliases.add(target)
		}
	}
}

// aliasTarget returns the host that s is another name of, or nothing.
func aliasTarget(s *Service) string {
	if s == nil || s.Resolution != Alias {
		return ""
	}
	return s.AliasOf
}

// deriveAliases stores, for every host that chains starting at the marked hosts reach, before or now, who stands for it.
func (w *discoveryWork) deriveAliases() {
	if len(w.dirtyAliases) == 0 {
		return
	}
	reached := rowSet{}
	for h := range w.dirtyAliases {
		w.follow(h, reached)
	}
	aliases := w.next.aliases.Txn()
	for h := range reached {
		list := w.aliasesOf(h)
		namespaces, _ := w.next.hosts.Get(h)
		gone, _ := w.prev.hosts.Get(h)
		for _, ns := range append(slices.Clone(namespaces), gone...) {
			row := ns + "/" + h
			want := list
			if !slices.Contains(namespaces, ns) {
				want = nil
			}
			if old, _ := aliases.Get(row); len(old) == len(want) && (len(old) == 0 || reflect.DeepEqual(old, want)) {
				continue
			}
			setRows(aliases, row, want)
			w.touch(TableAliases, row)
		}
	}
	w.next.aliases = aliases.Commit()
}

// follow collects host and everything its aliases stand for, in the old tables and in the new.
func (w *discoveryWork) follow(host string, reached rowSet) {
	if _, seen := reached[host]; seen {
		return
	}
	reached.add(host)
	for _, pc := range []*PushContext{w.prev, w.next} {
		for _, s := range servicesOfHost(pc.hosts, pc.services, host) {
			if s.Resolution == Alias {
				w.follow(s.AliasOf, reached)
			}
		}
	}
}

// aliasesOf returns the services that stand for host, directly or through other aliases. A host that is itself an alias
// has none, which also drops loops.
func (w *discoveryWork) aliasesOf(host string) []ServiceKey {
	for _, s := range servicesOfHost(w.next.hosts, w.next.services, host) {
		if s.Resolution == Alias {
			return nil
		}
	}
	var out []ServiceKey
	seen := rowSet{}
	var walk func(target string)
	walk = func(target string) {
		for row := range w.aliasesTo[target] {
			if _, dup := seen[row]; dup {
				continue
			}
			seen.add(row)
			ns, h, _ := strings.Cut(row, "/")
			out = append(out, ServiceKey{Host: h, Namespace: ns})
			walk(h)
		}
	}
	walk(host)
	slices.SortFunc(out, func(a, b ServiceKey) int { return strings.Compare(a.String(), b.String()) })
	return out
}
