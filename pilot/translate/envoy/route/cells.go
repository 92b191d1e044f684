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
	def := func(k cell.Kind, compute func(c *view.Context, arg any) any, equal cell.Equal) {
		g.Define(k, func(rec *cell.Recorder, id cell.ID, env cell.Env) any {
			v, _ := env.(*view.View)
			return compute(view.NewContext(pc(), rec, g, v), id.Arg)
		}, equal)
	}
	def(kindListing, func(c *view.Context, arg any) any {
		id, _ := arg.(listingID)
		return newListing(c, id)
	}, sameListing)
	spare := newNotes()
	def(kindPlan, func(c *view.Context, arg any) any {
		name, _ := arg.(string)
		return newPlan(c, parseName(name), spare)
	}, samePlan)
	def(kindLarge, func(c *view.Context, arg any) any {
		name, _ := arg.(string)
		return isLarge(c, name)
	}, func(a, b any) bool { return a == b })
	def(kindVirtualHost, func(c *view.Context, arg any) any {
		u, _ := arg.(hostUnit)
		return virtualHostPart(c, u)
	}, translate.PartEqual)
	def(kindCatchAll, func(c *view.Context, arg any) any {
		u, _ := arg.(catchAll)
		return u.part(c)
	}, translate.PartEqual)
}
