package patch

import (
	"slices"

	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// The package's cells.
const (
	kindParsed cell.Kind = 160 // parsedID: the patches of one group in one EnvoyFilter, read
	kindSet    cell.Kind = 161 // setID: the patches that are for a proxy, in order
)

// parsedID names the patches of one group in one object, so that who reads them is not bothered by another group's.
type parsedID struct {
	object model.ObjectKey
	group  view.PatchGroup
}

type parsed struct {
	specs   []*networking.EnvoyFilter_EnvoyConfigObjectPatch
	patches []*patch
}

func (p *parsed) at(index int) *patch {
	if p == nil {
		return nil
	}
	for _, x := range p.patches {
		if x.index == index {
			return x
		}
	}
	return nil
}

// setID names the patches of one group in one context, or in all.
type setID struct {
	group      view.PatchGroup
	context    networking.EnvoyFilter_PatchContext
	everywhere bool
}

// set is patches in the order in which they apply.
type set struct{ patches []*patch }

// Define registers the package's cells.
func Define(g *cell.Graph, pc func() *model.PushContext) {
	view.DefineCell(g, pc, kindParsed, func(c *view.Context, id parsedID) any { return parseObject(c, id) }, sameParsed)
	view.DefineCell(g, pc, kindSet, func(c *view.Context, id setID) any { return newSet(c, id) }, func(a, b any) bool {
		x, _ := a.(*set)
		y, _ := b.(*set)
		return x != nil && y != nil && slices.Equal(x.patches, y.patches)
	})
}

func parseObject(c *view.Context, id parsedID) *parsed {
	out := &parsed{}
	o := c.Object(id.object)
	if o == nil {
		return out
	}
	spec, _ := o.Spec.(*networking.EnvoyFilter)
	for i, p := range spec.GetConfigPatches() {
		if g, ok := view.PatchGroupOf(p.GetApplyTo()); ok && g == id.group {
			out.specs, out.patches = append(out.specs, p), append(out.patches, parse(id.object, i, p))
		}
	}
	return out
}

func sameParsed(a, b any) bool {
	x, _ := a.(*parsed)
	y, _ := b.(*parsed)
	if x == nil || y == nil || len(x.specs) != len(y.specs) {
		return false
	}
	for i := range x.specs {
		if x.patches[i].index != y.patches[i].index || !proto.Equal(x.specs[i], y.specs[i]) {
			return false
		}
	}
	return true
}

func newSet(c *view.Context, id setID) *set {
	out := &set{}
	for _, ref := range c.EnvoyFilterPatches(id.group) {
		object, _ := c.Cell(cell.ID{Kind: kindParsed, Arg: parsedID{ref.Object, id.group}}).(*parsed)
		for _, i := range ref.Indexes {
			if p := object.at(i); p != nil && (id.everywhere || p.in(id.context)) {
				out.patches = append(out.patches, p)
			}
		}
	}
	return out
}

// patchesFor returns the patches of a group that are for the context's proxy, none if the proxy has none.
func patchesFor(c *view.Context, group view.PatchGroup, context networking.EnvoyFilter_PatchContext) []*patch {
	if len(c.EnvoyFilterPatches(group)) == 0 {
		return nil
	}
	s, _ := c.Cell(cell.ID{Kind: kindSet, Arg: setID{group: group, context: context}}).(*set)
	if s == nil {
		return nil
	}
	return s.patches
}
