package xds

import (
	"slices"
	"strings"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// Virtual hosts follow the routes: Envoy asks for the type once and expects, unasked, the virtual hosts
// "<route>/<host>" of every route configuration that it is sent. A route without any is released by the removal of
// "<route>/-".

// routeOf returns the route configuration that a virtual host belongs to: what is before the last slash.
func routeOf(name string) string {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return ""
	}
	return name[:i]
}

// follow makes the watch follow the routes as they are subscribed now.
func (s *Session) follow(now time.Time, w *watch) Effects {
	var names *NameSet
	if rds := s.watches[translate.RouteType]; rds != nil {
		names = rds.names
	}
	if names == w.names {
		return Effects{}
	}
	if w.routes == nil {
		w.routes = map[string]struct{}{}
	}
	for n := range names.All() {
		if !w.names.Has(n) {
			w.routes[n] = struct{}{}
		}
	}
	before := w.names
	w.names = names
	for n := range before.All() {
		if names.Has(n) {
			continue
		}
		delete(w.routes, n)
		for host := range w.except {
			if routeOf(host) == n {
				w.forget(host)
			}
		}
	}
	if !w.served {
		return Effects{}
	}
	return Effects{Demand: []Demand{{TypeURL: w.url, Names: names}}}
}

// noteRoutes owes the virtual hosts of routes that were sent to the client since it was asked for them.
func (s *Session) noteRoutes(now time.Time, w *watch) {
	rds := s.watches[translate.RouteType]
	for route := range w.routes {
		if rds == nil || rds.fresh || rds.except[route] != nil {
			continue // the route itself comes first
		}
		hosts, known := hostsOf(w.states, route)
		if !known && w.served {
			continue
		}
		delete(w.routes, route)
		s.claimHosts(now, w, route)
		for _, h := range hosts {
			if ex := w.except[h]; ex != nil {
				continue // claimed
			}
			target, _ := lookup(w.states, h)
			if w.claims[h] == target.Version {
				continue
			}
			s.owe(now, w, h)
			w.except[h].held = nil
		}
		if len(hosts) == 0 {
			w.empty = append(w.empty, route)
			w.answer = true
		}
	}
}

// claimHosts removes those virtual hosts of a route that a reconnecting client says it holds and that are gone.
func (s *Session) claimHosts(now time.Time, w *watch, route string) {
	for n, version := range w.claims {
		if routeOf(n) != route {
			continue
		}
		if target, _ := lookup(w.states, n); target == nil {
			w.except[n] = &exception{held: &Resource{Name: n, Version: version}, seq: s.seq, noted: now}
		}
	}
}

// hostsOf returns the virtual hosts of a route; known is false if the engine has not come to it.
func hostsOf(states []*State, route string) (hosts []string, known bool) {
	for _, s := range states {
		if _, ok := s.Items.Get(route); ok {
			known = true
		}
		for n, r := range s.Items.Prefix(route + "/") {
			if r != nil && routeOf(n) == route {
				known = true
				hosts = append(hosts, n)
			}
		}
	}
	return hosts, known
}

// releases returns the removals that release routes without virtual hosts.
func (s *Session) releases(w *watch) []string {
	out := make([]string, 0, len(w.empty))
	for _, r := range w.empty {
		out = append(out, r+"/-")
	}
	w.empty = nil
	slices.Sort(out)
	return out
}
