package patch

import (
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"
)

func forConfiguration(patches []*patch, name string) []*patch {
	var out []*patch
	for _, p := range patches {
		if p.matchesConfiguration(name) {
			out = append(out, p)
		}
	}
	return out
}

// editRoutes applies patches that match a route configuration, from the outside to the inside.
func editRoutes(m proto.Message, patches []*patch, _ func(*patch, error)) proto.Message {
	rc, ok := m.(*routev3.RouteConfiguration)
	if !ok {
		return m
	}
	for _, p := range patches {
		if p.applyTo == networking.EnvoyFilter_ROUTE_CONFIGURATION && p.merges() {
			merge(rc, p.value, p.replacesLists())
		}
	}
	hosts := rc.VirtualHosts[:0:0]
	for _, h := range rc.VirtualHosts {
		if h = editHost(h, patches); h != nil {
			hosts = append(hosts, h)
		}
	}
	for _, p := range patches {
		if h, ok := p.value.(*routev3.VirtualHost); ok && p.op == networking.EnvoyFilter_Patch_ADD {
			hosts = append(hosts, cloned(h))
		}
	}
	rc.VirtualHosts = hosts
	return rc
}

// editHost applies patches to one virtual host; nil means that it goes.
func editHost(h *routev3.VirtualHost, patches []*patch) *routev3.VirtualHost {
	for _, p := range patches {
		if p.applyTo != networking.EnvoyFilter_VIRTUAL_HOST || !p.matchesHost(h) {
			continue
		}
		switch {
		case p.op == networking.EnvoyFilter_Patch_REMOVE:
			return nil
		case p.op == networking.EnvoyFilter_Patch_REPLACE:
			value, _ := p.value.(*routev3.VirtualHost)
			h = cloned(value)
		case p.merges():
			merge(h, p.value, p.replacesLists())
		}
	}
	var of []*patch
	for _, p := range patches {
		if p.applyTo == networking.EnvoyFilter_HTTP_ROUTE && p.matchesHost(h) {
			of = append(of, p)
		}
	}
	if len(of) > 0 {
		h.Routes = insertRoutes(changeRoutes(h.Routes, of), of)
	}
	return h
}

// changeRoutes merges into routes and removes them.
func changeRoutes(routes []*routev3.Route, patches []*patch) []*routev3.Route {
	return slices.DeleteFunc(routes, func(r *routev3.Route) bool {
		for _, p := range patches {
			switch {
			case !p.matchesRoute(r):
			case p.op == networking.EnvoyFilter_Patch_REMOVE:
				return true
			case p.merges():
				merge(r, p.value, p.replacesLists())
			}
		}
		return false
	})
}

// insertRoutes adds routes. A place next to a route that is not there is no place, the first one neither.
func insertRoutes(routes []*routev3.Route, patches []*patch) []*routev3.Route {
	for _, p := range patches {
		value, ok := p.value.(*routev3.Route)
		if !ok || p.merges() {
			continue
		}
		anywhere := p.routeMatch() == nil
		at := slices.IndexFunc(routes, p.matchesRoute)
		switch {
		case p.op == networking.EnvoyFilter_Patch_ADD || p.op == networking.EnvoyFilter_Patch_INSERT_AFTER && anywhere:
			routes = append(routes, cloned(value))
		case p.op == networking.EnvoyFilter_Patch_INSERT_BEFORE && anywhere || p.op == networking.EnvoyFilter_Patch_INSERT_FIRST && (anywhere || at >= 0):
			routes = slices.Insert(routes, 0, cloned(value))
		case at < 0:
		case p.op == networking.EnvoyFilter_Patch_INSERT_AFTER:
			routes = slices.Insert(routes, at+1, cloned(value))
		case p.op == networking.EnvoyFilter_Patch_INSERT_BEFORE:
			routes = slices.Insert(routes, at, cloned(value))
		}
	}
	return routes
}
