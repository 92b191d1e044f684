package model

import (
	"slices"

	"github.com/mizzen-mesh/mizzen/pkg/store"
)

// rowSet is a set of object rows ("namespace/name") or of hosts.
type rowSet map[string]struct{}

func (s rowSet) add(row string) { s[row] = struct{}{} }

// index maps a name to the rows that mention it.
type index map[string]rowSet

func (x index) add(name, row string) {
	if x[name] == nil {
		x[name] = rowSet{}
	}
	x[name].add(row)
}

func (x index) drop(name, row string) {
	delete(x[name], row)
	if len(x[name]) == 0 {
		delete(x, name)
	}
}

// configState is what the builder keeps to derive routing rules and policies key by key.
type configState struct {
	roots    index          // row of a delegate, existing or not -> rows of the virtual services that name it
	ruleRows index          // host -> rows of its destination rules
	labels   map[string]int // label key -> how many objects test it
	meshKeys []string       // label keys that the mesh configuration tests
}

func (s *configState) start() {
	s.roots, s.ruleRows, s.labels = index{}, index{}, map[string]int{}
	for _, k := range alwaysTestedLabels() {
		s.labels[k]++
	}
}

// deriveConfig brings virtual services, destination rules, sidecars, policies and tested labels up to date.
func (b *Builder) deriveConfig(c *commit) {
	b.deriveVirtualServices(c)
	b.deriveDestinationRules(c)
	deriveSidecars(c)
	derivePeerAuthentications(c)
	b.deriveTestedLabels(c)
}

// changedNamespaces returns the namespaces in which an object of kind k changed, sorted.
func (c *commit) changedNamespaces(k Kind) []string {
	var out []string
	for _, ch := range c.changes {
		if ch.key.Kind == k {
			out = append(out, ch.key.Namespace)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// namespaceObjects returns a namespace's objects of a kind, oldest first.
func namespaceObjects(t store.Table[*Object], namespace string) []*Object {
	var out []*Object
	for _, o := range t.Prefix(namespace + "/") {
		out = append(out, o)
	}
	sortOldest(out)
	return out
}

// setRows stores list under key, or takes the row out if list is empty.
func setRows[T any](x *store.Txn[[]T], key string, list []T) {
	if len(list) == 0 {
		x.Delete(key)
		return
	}
	x.Set(key, list)
}

// listEdit collects what leaves and what enters an ordered list.
type listEdit[T comparable] struct {
	gone  map[T]struct{}
	added []T
}

func (e *listEdit[T]) remove(v T) {
	if e.gone == nil {
		e.gone = map[T]struct{}{}
	}
	e.gone[v] = struct{}{}
}

func (e *listEdit[T]) empty() bool { return len(e.gone) == 0 && len(e.added) == 0 }

// apply returns a new list in the order of compare. The old one, which must be in that order, stays as it is.
func (e *listEdit[T]) apply(list []T, compare func(a, b T) int) []T {
	slices.SortFunc(e.added, compare)
	out := make([]T, 0, len(list)+len(e.added))
	i := 0
	for _, v := range list {
		if _, gone := e.gone[v]; gone {
			continue
		}
		for ; i < len(e.added) && compare(e.added[i], v) < 0; i++ {
			out = append(out, e.added[i])
		}
		out = append(out, v)
	}
	return append(out, e.added[i:]...)
}
