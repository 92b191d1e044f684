package route

import (
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// The package's cells.
const (
	kindListing     cell.Kind = 120 // listingID: what a listening port of a scope carries
	kindPlan        cell.Kind = 121 // string, a route configuration's name without suffix: its virtual hosts, as units
	kindVirtualHost cell.Kind = 122 // hostUnit: one encoded virtual host
	kindCatchAll    cell.Kind = 123 // catchAll: the encoded virtual host for unknown hosts
	kindLarge       cell.Kind = 124 // string, as for plans: whether there are many virtual hosts
)

// Define registers the package's cells.
func Define(g *cell.Graph, pc func() *model.PushContext) {
	view.DefineCell(g, pc, kindListing, func(c *view.Context, id listingID) any { return newListing(c, id) }, sameListing)
	spare := newNotes()
	view.DefineCell(g, pc, kindPlan, func(c *view.Context, name string) any { return newPlan(c, parseName(name), spare) }, samePlan)
	view.DefineCell(g, pc, kindLarge, func(c *view.Context, name string) any { return isLarge(c, name) }, func(a, b any) bool { return a == b })
	view.DefineCell(g, pc, kindVirtualHost, func(c *view.Context, u hostUnit) any { return virtualHostPart(c, u) }, translate.PartEqual)
	view.DefineCell(g, pc, kindCatchAll, func(c *view.Context, u catchAll) any { return u.part(c) }, translate.PartEqual)
}
