package view

import (
	"slices"

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
