package model

import (
	"maps"
	"slices"
	"strings"

	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Makers returns the users' objects behind rows, each once, by kind, namespace and name: which objects made what was
// computed from those rows. Rows that stand for many objects (lists of all services, the mesh configuration) name none.
func (pc *PushContext) Makers(rows []cell.Key) []ObjectKey {
	found := map[ObjectKey]struct{}{}
	for _, row := range rows {
		for _, k := range pc.makersOf(row) {
			found[k] = struct{}{}
		}
	}
	return slices.SortedFunc(maps.Keys(found), ObjectKey.Compare)
}

func (pc *PushContext) makersOf(row cell.Key) []ObjectKey {
	switch row.Table {
	case TableObject:
		kind, rest, _ := strings.Cut(row.Name, "/")
		if o, ok := pc.objects[Kind(kind)].Get(rest); ok {
			return []ObjectKey{o.ObjectKey}
		}
	case TableService:
		if s, ok := pc.services.Get(row.Name); ok {
			return []ObjectKey{s.Object}
		}
	case TableVirtualService:
		if v, ok := pc.virtualServices.Get(row.Name); ok {
			return append([]ObjectKey{v.ObjectKey}, v.Delegates...)
		}
	case TableDestinationRule:
		var out []ObjectKey
		rules, _ := pc.rules.Get(row.Name)
		for _, r := range rules {
			for _, o := range r.From {
				out = append(out, o.ObjectKey)
			}
		}
		return out
	}
	return nil
}
