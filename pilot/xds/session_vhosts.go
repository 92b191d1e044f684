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
func (s *Session) follow(w *watch) Effects {
	var names *NameSet
	if rds := s.watches[translate.RouteType]; rds != nil {
		names = rds.names
	}
	if names == w.names {
		return Effects{}
	}
	before := w.names
	w.names = names
	for n := range before.All() {
		if !names.Has(n) {
			w.leave(n)
		}
	}
	for n := range names.All() {
		if !before.Has(n) {
			w.enter(n)
		}
	}
	if !w.served {
		return Effects{}
	}
	return Effects{Demand: []Demand{{TypeURL: w.url, Names: names}}}
}

// enter makes the watch owe all virtual hosts of a route.
func (w *watch) enter(route string) {
	if w.routes == nil {
		w.routes = map[string]struct{}{}
	}
	w.routes[route] = struct{}{}
	w.left = slices.DeleteFunc(w.left, func(host string) bool {
		if routeOf(host) != route {
			return false
		}
		w.claim(host)
		return true
	})
}

// leave forgets a route. The client would go on to say that it holds its virtual hosts: they are claims, to be taken back
// unless the route comes again.
func (w *watch) leave(route string) {
	if _, owed := w.routes[route]; !owed {
		for _, h := range hostsOf(w.states, route) {
			w.claim(h)
		}
	}
	delete(w.routes, route)
	for h := range w.except {
		if routeOf(h) == route {
			w.claim(h)
			w.forget(h)
		}
	}
}

// claim notes that the client may say it holds a virtual host, in a version that does not matter.
func (w *watch) claim(host string) {
	if w.claims == nil {
		w.claims = map[string]string{}
	}
	if _, has := w.claims[host]; !has {
		w.claims[host] = ""
	}
}

// routeLost notes that the client does not hold a route that it was sent, or has made it anew: virtual hosts that came
// before are gone, since a client ignores those of routes it does not hold.
func (s *Session) routeLost(route string) {
	if w := s.watches[translate.VirtualHostType]; w != nil && w.mode == followed && w.names.Has(route) {
		w.leave(route)
		w.enter(route)
	}
}

// noteRoutes owes the virtual hosts of routes that were sent to the client since it was asked for them.
func (s *Session) noteRoutes(now time.Time, w *watch) {
	rds := s.watches[translate.RouteType]
	if rds == nil {
		return
	}
	for route := range w.routes {
		if !rds.gave(route) || w.served && !comeTo(w.states, route) {
			continue // the route itself comes first
		}
		hosts := hostsOf(w.states, route)
		delete(w.routes, route)
		s.oweHosts(now, w, hosts, w.takeClaims(route), rds.brought.Has(route))
		if len(hosts) == 0 {
			w.empty = append(w.empty, route)
			w.answer = true
		}
	}
	for host := range w.claims {
		if !w.names.Has(routeOf(host)) {
			delete(w.claims, host)
			w.left = append(w.left, host)
			w.answer = true
		}
	}
}

// gave tells whether the client was sent a route in whatever version.
func (w *watch) gave(route string) bool {
	ex := w.except[route]
	if w.fresh || ex == nil {
		return !w.fresh
	}
	target, _ := lookup(w.states, route)
	return ex.held != nil && w.refused(route, target)
}

// oweHosts owes the virtual hosts of a route, and the removal of those among claims that are gone. What a reconnecting
// client claims to hold is left out only if it holds the route too: else it has ignored them.
func (s *Session) oweHosts(now time.Time, w *watch, hosts []string, claims map[string]string, trusted bool) {
	for _, h := range hosts {
		target, _ := lookup(w.states, h)
		version, claimed := claims[h]
		delete(claims, h)
		if trusted && claimed && version == target.Version {
			w.forget(h)
			continue
		}
		s.owe(now, w, h)
		w.except[h].held = nil
		if claimed {
			w.except[h].held = &Resource{Name: h, Version: version}
		}
	}
	for h, version := range claims {
		w.except[h] = &exception{held: &Resource{Name: h, Version: version}, seq: s.seq, noted: now}
	}
}

// takeClaims returns what a reconnecting client said it holds of a route, once.
func (w *watch) takeClaims(route string) map[string]string {
	var out map[string]string
	for host, version := range w.claims {
		if routeOf(host) != route {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[host] = version
		delete(w.claims, host)
	}
	return out
}

// early tells whether a virtual host must be kept back: its route does not know its own yet, or the engine has not come
// to the route.
func (w *watch) early(host string, target *Resource) bool {
	if w.mode != followed {
		return false
	}
	route := routeOf(host)
	if _, owed := w.routes[route]; owed || target != nil {
		return owed
	}
	return w.served && !comeTo(w.states, route)
}

// together keeps those of ready back whose route has others that must wait: domains may have moved between them, which
// the client takes only within one response. No longer than for clusters, though.
func (s *Session) together(now time.Time, w *watch, ready []string, waiting map[string]struct{}) []string {
	return slices.DeleteFunc(ready, func(host string) bool {
		if _, wait := waiting[routeOf(host)]; !wait {
			return false
		}
		limit := w.except[host].noted.Add(s.cfg.Timing.ClusterWait)
		if !now.Before(limit) {
			return false
		}
		s.wakeAt(limit)
		return true
	})
}

// hostsOf returns the virtual hosts of a route.
func hostsOf(states []*State, route string) (hosts []string) {
	for _, s := range states {
		for n, r := range s.Items.Prefix(route + "/") {
			if r != nil && routeOf(n) == route {
				hosts = append(hosts, n)
			}
		}
	}
	return hosts
}

// comeTo tells whether the engine has come to the virtual hosts of a route: without any there is an entry for the route.
func comeTo(states []*State, route string) bool {
	for _, s := range states {
		if _, ok := s.Items.Get(route); ok {
			return true
		}
		for n, r := range s.Items.Prefix(route + "/") {
			if r != nil && routeOf(n) == route {
				return true
			}
		}
	}
	return false
}

// releases returns the removals that only the client needs: they release routes without virtual hosts, and take back
// what belongs to no route any more. The flight remembers them.
func (w *watch) releases(f *flight) []string {
	f.empty, f.left = w.empty, w.left
	w.empty, w.left = nil, nil
	out := make([]string, 0, len(f.empty)+len(f.left))
	for _, r := range f.empty {
		out = append(out, r+"/-")
	}
	out = append(out, f.left...)
	slices.Sort(out)
	return slices.Compact(out)
}

// releaseAgain owes the releases of a response that was rejected.
func (w *watch) releaseAgain(f *flight) {
	for _, r := range f.empty {
		if w.names.Has(r) {
			w.empty = append(w.empty, r)
		}
	}
	for _, host := range f.left {
		if !w.names.Has(routeOf(host)) {
			w.left = append(w.left, host)
		}
	}
	w.answer = w.answer || len(w.empty)+len(w.left) > 0
}
