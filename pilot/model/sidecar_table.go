package model

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// deriveSidecars lists anew the Sidecar objects of every namespace in which one changed.
func deriveSidecars(c *commit) {
	namespaces := c.changedNamespaces(KindSidecar)
	if len(namespaces) == 0 {
		return
	}
	x := c.next.sidecars.Txn()
	for _, ns := range namespaces {
		kept, _ := x.Get(ns)
		var list []*Sidecar
		for _, o := range namespaceObjects(c.next.objects[KindSidecar], ns) {
			if spec, ok := o.Spec.(*networking.Sidecar); ok {
				list = append(list, newSidecar(o, spec, kept))
			}
		}
		slices.SortStableFunc(list, selectorFirst)
		setRows(x, ns, list)
		c.touch(TableSidecar, ns)
	}
	c.next.sidecars = x.Commit()
}

// newSidecar returns the row of o, the kept one if o is what it was made from.
func newSidecar(o *Object, spec *networking.Sidecar, kept []*Sidecar) *Sidecar {
	for _, k := range kept {
		if k.Object == o {
			return k
		}
	}
	s := &Sidecar{Object: o, Spec: spec}
	if w := spec.GetWorkloadSelector(); w != nil {
		s.Selector = w.GetLabels()
		if s.Selector == nil {
			s.Selector = map[string]string{} // present but empty: matches all, and still comes first
		}
	}
	return s
}

func selectorFirst(a, b *Sidecar) int {
	switch {
	case (a.Selector != nil) == (b.Selector != nil):
		return 0
	case a.Selector != nil:
		return -1
	}
	return 1
}
