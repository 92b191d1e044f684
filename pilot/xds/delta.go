package xds

import (
	"maps"
	"slices"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// requestDelta takes a delta request.
func (s *Session) requestDelta(now time.Time, r *Request) Effects {
	w := s.watches[r.TypeURL]
	if w == nil {
		if r.Error != nil {
			return Effects{}
		}
		return s.beginDelta(now, r)
	}
	var eff Effects
	switch {
	case r.Error != nil:
		eff = s.nack(now, r)
	case r.Nonce == "":
	case r.Nonce == w.nonces.sent:
		s.accepted(w, r.Nonce)
		if w.always {
			w.always, w.fresh, w.asked = false, true, now
		}
	case w.nonces.late(r.Nonce):
		// A late acknowledgement is none, but the changes of subscription in it are said only once.
		eff.Stale = true
	default:
		return Effects{Stale: true}
	}
	return s.resubscribe(now, w, r, eff)
}

// star is the name that stands for everything.
const star = "*"

// beginDelta begins a type.
func (s *Session) beginDelta(now time.Time, r *Request) Effects {
	subscribe, starIn := withoutStar(r.Subscribe)
	unsubscribe, starOut := withoutStar(r.Unsubscribe)
	everything := starIn && !starOut || len(r.Subscribe) == 0
	add := subscribe
	if s.byName(r.TypeURL) && len(r.Initial) > 0 {
		add = make([]string, 0, len(subscribe)+len(r.Initial))
		add = append(add, subscribe...)
		for n := range r.Initial {
			if n != star {
				add = append(add, n)
			}
		}
	}
	names, _, _ := s.cfg.Names.With(nil, add, unsubscribe)
	if names.Len() > maxNames || names.size() > maxNameBytes || len(r.Initial) > maxNames {
		return Effects{Err: errTooMuch}
	}
	w := s.open(r.TypeURL)
	w.everything = w.mode == wildcard && everything && !w.byName
	w.fresh, w.asked, w.reconnect = true, now, len(r.Initial) > 0
	if len(r.Initial) > 0 {
		w.claims = r.Initial
		for _, n := range r.Unsubscribe {
			delete(w.claims, n)
		}
	}
	if w.url == translate.EndpointType {
		s.disbelieve(w)
	}
	w.answer = w.mode == wildcard && w.url != translate.NameTableType
	if w.mode == followed {
		return s.follow(w)
	}
	w.names = names
	if w.url == translate.RouteType {
		w.brought = s.cfg.Names.Of(slices.Collect(maps.Keys(r.Initial)))
	}
	eff := s.demand(w)
	if w.mode == wildcard && w.served && !w.byName {
		eff.Use = []string{w.url}
	}
	return eff
}

// demand tells the engine what names the watch wants.
func (s *Session) demand(w *watch) Effects {
	var eff Effects
	if w.byName && w.served {
		eff.Demand = []Demand{{TypeURL: w.url, Names: w.names}}
	}
	if vhds := s.watches[translate.VirtualHostType]; w.url == translate.RouteType && vhds != nil && vhds.mode == followed {
		eff.Demand = append(eff.Demand, s.follow(vhds).Demand...)
	}
	return eff
}

// resubscribe changes the names of a watch.
func (s *Session) resubscribe(now time.Time, w *watch, r *Request, eff Effects) Effects {
	if w.mode == followed {
		return eff // follows the routes whatever it says
	}
	add, _ := withoutStar(r.Subscribe)
	remove, _ := withoutStar(r.Unsubscribe)
	for n := range r.Initial {
		if n != star && w.mode == named {
			add = append(add, n)
		}
	}
	before := w.names
	next, added, removed := s.cfg.Names.With(w.names, add, remove)
	if next.Len() > maxNames || next.size() > maxNameBytes {
		eff.Err = errTooMuch
		return eff
	}
	w.names = next
	s.disclaim(w, removed)
	s.disclaim(w, added)
	for _, n := range removed {
		if w.mode == named || !w.everything {
			w.forget(n)
		}
	}
	for _, n := range added {
		s.owe(now, w, n)
		if w.mode == named || !w.everything {
			w.except[n].held = nil
		}
	}
	// Who asks again for a name lost it: Envoy does so for a cluster that went and came within one of its requests.
	if w.mode == named && r.Nonce == "" {
		for _, n := range add {
			if before.Has(n) && next.Has(n) {
				s.disclaim(w, []string{n})
				s.owe(now, w, n)
				if w.url == translate.RouteType {
					w.except[n].held = nil // what it has under this name from now is another object
					s.routeLost(n)
				}
			}
		}
	}
	// Taking names back from a type that is watched as a whole is answered with the whole.
	if w.mode == wildcard && len(added) == 0 && s.takesBack(w, remove) {
		w.fresh, w.asked, w.claims, w.answer = true, now, nil, true
	}
	if next == before {
		return eff
	}
	d := s.demand(w)
	eff.Demand = append(eff.Demand, d.Demand...)
	return eff
}

// disclaim forgets that a reconnecting client said it holds names which it has given up since.
func (s *Session) disclaim(w *watch, names []string) {
	for _, n := range names {
		delete(w.claims, n)
	}
	w.brought, _, _ = s.cfg.Names.With(w.brought, nil, names)
}

// takesBack tells whether one of names is something the client was sent.
func (s *Session) takesBack(w *watch, names []string) bool {
	if !w.everything {
		return false
	}
	for _, n := range names {
		if r, _ := lookup(w.states, n); r != nil {
			return true
		}
	}
	return false
}

// withoutStar returns names without the star, and whether it was there. rest has no room to append to.
func withoutStar(names []string) (rest []string, had bool) {
	if !slices.Contains(names, star) {
		return slices.Clip(names), false
	}
	rest = make([]string, 0, len(names))
	for _, n := range names {
		if n == star {
			had = true
		} else {
			rest = append(rest, n)
		}
	}
	return rest, had
}
