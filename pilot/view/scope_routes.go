package view

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// routeIndex finds rules by the hosts they name.
type routeIndex struct {
	byHost map[string][]*model.VirtualService
	wild   []string // the wildcards among the hosts, most specific first
}

func newRouteIndex(rules []*model.VirtualService) routeIndex {
	x := routeIndex{byHost: make(map[string][]*model.VirtualService, len(rules))}
	for _, v := range rules {
		for _, h := range v.Hosts {
			list, seen := x.byHost[h]
			if !seen && model.IsWildcard(h) {
				x.wild = append(x.wild, h)
			}
			if len(list) == 0 || list[len(list)-1] != v {
				x.byHost[h] = append(list, v)
			}
		}
	}
	slices.SortFunc(x.wild, model.MoreSpecific)
	return x
}

func (x *routeIndex) find(host string) []*model.VirtualService {
	out := x.byHost[host]
	for _, w := range x.wild {
		if w == host || !model.HostSubsetOf(host, w) {
			continue
		}
		for _, v := range x.byHost[w] {
			if !slices.Contains(out, v) {
				out = append(out[:len(out):len(out)], v)
			}
		}
	}
	return out
}

// virtualServicesFor narrows the rules of a host by visibility, binding and import. Only private rules and those of the
// Gateway API look different from one namespace to the next.
func (c *Context) virtualServicesFor(spec *networking.IstioEgressListener, host string) []*model.VirtualService {
	all := c.VirtualServicesOfHost(host)
	if len(all) == 0 {
		return nil
	}
	namespace := ""
	if spec != nil || slices.ContainsFunc(all, func(v *model.VirtualService) bool {
		return !v.ExportTo.Public || v.FromGatewayAPI
	}) {
		namespace = c.ProxyNamespace()
	}
	var im *imports
	if spec != nil {
		im = parseImports(spec.GetHosts(), namespace)
	}
	var out []*model.VirtualService
	for _, v := range all {
		if v.Bound(model.MeshGateway) && v.ExportTo.Allows(namespace) && (im == nil || im.hasVirtualService(v)) &&
			!slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	rank := precedence(namespace, c.Settings().UnifiedSidecarScope)
	specific := func(v *model.VirtualService) string { return mostSpecific(v, host) }
	slices.SortStableFunc(out, func(a, b *model.VirtualService) int {
		if s := model.MoreSpecific(specific(a), specific(b)); s != 0 {
			return s
		}
		return rank(a) - rank(b)
	})
	return out
}

// mostSpecific returns the host of v by which it is found for host.
func mostSpecific(v *model.VirtualService, host string) string {
	best := ""
	for _, h := range v.Hosts {
		if h == host {
			return h
		}
		if model.HostSubsetOf(host, h) && (best == "" || model.MoreSpecific(h, best) < 0) {
			best = h
		}
	}
	return best
}

// precedence ranks the rules that namespace sees: its own private ones, those exported to it, the public ones; in each
// group, if consumers may override, the namespace's own Gateway API routes first.
func precedence(namespace string, override bool) func(*model.VirtualService) int {
	return func(v *model.VirtualService) int {
		rank := 1
		if override && v.FromGatewayAPI && v.Namespace == namespace {
			rank = 0
		}
		switch {
		case v.ExportTo.Public:
			return rank + 4
		case v.Namespace != namespace:
			return rank + 2
		}
		return rank
	}
}
