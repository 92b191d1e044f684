package xds

import (
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// Next returns the next response to send, or nil and when to ask again though nothing happens (zero: never). What it
// returns counts as sent.
func (s *Session) Next(now time.Time) (*Response, time.Time) {
	s.wake, s.settled = time.Time{}, settledMemo{}
	for _, w := range s.order {
		if r := s.next(now, w); r != nil {
			return r, time.Time{}
		}
	}
	return nil, s.wake
}

// wakeAt asks to be called again at t at the latest.
func (s *Session) wakeAt(t time.Time) {
	if s.wake.IsZero() || t.Before(s.wake) {
		s.wake = t
	}
}

func (s *Session) next(now time.Time, w *watch) *Response {
	if w.flight != nil && s.inFlight(now, w) || !w.ready {
		return nil
	}
	if w.fresh {
		if !s.begin(now, w) {
			return nil
		}
		if w.fresh {
			return s.sendAll(now, w)
		}
	}
	if now.Before(w.holdUntil) && s.watches[translate.RouteType] == nil {
		s.wakeAt(w.holdUntil)
		return nil
	}
	if r := s.sendSuspects(now, w); r != nil {
		return r
	}
	return s.sendChanges(now, w, nil)
}

// inFlight tells whether a response of the type is still waited for.
func (s *Session) inFlight(now time.Time, w *watch) bool {
	limit := w.flight.at.Add(s.cfg.Timing.Ack)
	if w.url == translate.ClusterType {
		limit = w.flight.at.Add(s.cfg.Timing.ClusterAck)
	}
	if now.Before(limit) {
		if len(w.except) > 0 || len(w.routes) > 0 || w.fresh || w.answer {
			s.wakeAt(limit)
		}
		return true
	}
	return false // a later acknowledgement still counts, until something else is sent
}

// begin prepares the first response of a type. It returns false if it must wait, and clears fresh if the response is
// not simply everything.
func (s *Session) begin(now time.Time, w *watch) bool {
	if w.mode == followed {
		w.fresh = false // what is owed is in routes
		return true
	}
	if w.byName && !s.cfg.Bodies.holds(s.cfg.Delta, w.states, w.names) {
		for n := range w.names.backward() { // the engine comes to the last ones last
			if _, known := lookup(w.states, n); !known && w.served {
				return false
			}
		}
	}
	if w.claims != nil {
		s.resolveClaims(now, w)
		return true
	}
	if w.stuck != nil && slices.Equal(w.stuck, w.states) {
		return false
	}
	w.stuck = nil
	if (w.reconnect || s.established()) && followsClusters(w.url) && s.awaitsClusters(now, &exception{noted: w.asked}, nil) {
		return false
	}
	if len(w.quarantine) > 0 {
		s.oweAll(now, w)
	}
	return true
}

// oweAll turns "everything is owed" into exceptions, so that single names can be kept back.
func (s *Session) oweAll(now time.Time, w *watch) {
	w.fresh, w.answer = false, w.answer || w.mode != named
	for n := range w.all() {
		s.owe(now, w, n)
	}
}

// all yields the names of every resource that the watch covers.
func (w *watch) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		if w.mode == named || w.mode == wildcard && !w.everything {
			w.names.All()(yield)
			return
		}
		for n := range items(w.states) {
			if w.covers(n) && !yield(n) {
				return
			}
		}
	}
}

// resolveClaims compares what a reconnecting client says it holds with what it should hold.
func (s *Session) resolveClaims(now time.Time, w *watch) {
	claims := w.claims
	w.fresh, w.claims, w.answer = false, nil, true
	clear(w.except)
	for n := range w.all() {
		target, _ := lookup(w.states, n)
		version, claimed := claims[n]
		delete(claims, n)
		if target == nil && !claimed || target != nil && claimed && target.Version == version {
			continue
		}
		ex := &exception{seq: s.seq, noted: now}
		if claimed {
			ex.held = &Resource{Name: n, Version: version}
		}
		w.except[n] = ex
	}
	for n, version := range claims {
		w.except[n] = &exception{held: &Resource{Name: n, Version: version}, seq: s.seq, noted: now}
		if w.url == translate.ClusterType {
			w.holdUntil = now.Add(s.cfg.Timing.Reconnect)
		}
	}
}

// sendAll sends everything that the watch covers, from the body that the class shares.
func (s *Session) sendAll(now time.Time, w *watch) *Response {
	w.fresh = false
	maps.DeleteFunc(w.except, func(n string, ex *exception) bool {
		target, _ := lookup(w.states, n)
		return target != nil || ex.held == nil && !ex.doubt || !s.cfg.Delta // what is left are removals to be told
	})
	body := s.fullBody(now, w)
	if body.count == 0 && !w.answer {
		return nil
	}
	w.flight = &flight{full: true, states: w.states, names: w.names, everything: w.everything, seq: s.seq}
	if w.url == translate.ClusterType {
		s.clustersSent(now, nil)
	}
	return s.send(now, w, body, nil)
}

// fullBody returns everything that the watch covers, as the class shares it.
func (s *Session) fullBody(now time.Time, w *watch) *Body {
	if w.mode == wildcard && w.everything {
		return s.cfg.Bodies.Full(now, s.cfg.Delta, w.states, nil)
	}
	if w.names.Len() == 0 {
		return &Body{}
	}
	return s.cfg.Bodies.Full(now, s.cfg.Delta, w.states, w.names)
}

// send makes the response out of what goes in it, and the flight that the caller has set.
func (s *Session) send(now time.Time, w *watch, body *Body, removed []string) *Response {
	r := &Response{TypeURL: w.url, Removed: removed, body: body}
	if s.published != nil {
		r.Version = s.published.Version
	}
	r.Nonce = r.Version + s.cfg.Nonce()
	w.answer = false
	w.nonces.send(r.Nonce)
	w.sentAt = now
	w.flight.nonce, w.flight.at = r.Nonce, now
	if strings.HasPrefix(w.url, debugPrefix) {
		w.flight = nil // never acknowledged
	}
	return r
}

// sendChanges sends the exceptions that may go now; if only is not nil, of the names in it.
func (s *Session) sendChanges(now time.Time, w *watch, only map[string]struct{}) *Response {
	if w.mode == followed {
		s.noteRoutes(now, w)
	}
	put, gone, waits := s.sendable(now, w, only)
	if len(put) > 0 && w.url == translate.ClusterType && s.leadsTraffic() {
		gone = nil // removals go in a response of their own
	}
	if len(put) == 0 && len(gone) == 0 && (!w.answer || waits) {
		return nil
	}
	f := &flight{seq: s.seq, states: w.states, members: make(map[string]member, len(put)+len(gone)), isolated: only != nil}
	var resources []*Resource
	var removed []string
	for _, n := range slices.Concat(put, gone) {
		ex := w.except[n]
		target, _ := s.due(w, n, ex)
		f.seq = min(f.seq, ex.seq)
		f.members[n] = member{ex.held, target, ex.doubt}
		if newest, _ := lookup(w.states, n); newest == target {
			delete(w.except, n)
		} else {
			w.except[n] = &exception{held: target, seq: ex.seq, noted: ex.noted}
		}
		switch {
		case target != nil:
			resources = append(resources, target)
		default:
			removed = append(removed, n)
		}
	}
	f.removal = len(resources) == 0
	w.flight = f
	if w.url == translate.ClusterType && len(resources) > 0 {
		s.clustersSent(now, resources)
	}
	if s.cfg.Delta {
		removed = append(removed, w.releases(f)...)
		return s.send(now, w, s.cfg.Bodies.Of(now, true, resources), removed)
	}
	if w.mode == wildcard {
		return s.send(now, w, s.completeBody(now, w), nil)
	}
	return s.send(now, w, s.cfg.Bodies.Of(now, false, resources), nil)
}

// sendable returns the names whose new version or removal may go now, sorted. Exceptions that turn out to need nothing
// are dropped. waits tells whether a new version must wait for something else.
func (s *Session) sendable(now time.Time, w *watch, only map[string]struct{}) (put, gone []string, waits bool) {
	waiting := map[string]struct{}{} // routes with virtual hosts that wait
	for n, ex := range w.except {
		if _, suspect := w.suspects[n]; only == nil && suspect {
			continue
		}
		if _, in := only[n]; only != nil && !in {
			continue
		}
		target, known := s.due(w, n, ex)
		if w.byName && !known && w.served || w.early(n, target) {
			continue // the engine has not come to it
		}
		if ex.holds(target) && !ex.force || target == nil && !s.removes(w, ex) {
			delete(w.except, n)
			delete(w.quarantine, n)
			continue
		}
		if w.refused(n, target) {
			continue
		}
		if s.waits(now, w, n, ex, target) {
			waits = waits || target != nil
			if w.mode == followed {
				waiting[routeOf(n)] = struct{}{}
			}
			continue
		}
		if target == nil {
			gone = append(gone, n)
		} else {
			put = append(put, n)
		}
	}
	if len(waiting) > 0 && only == nil {
		put, gone = s.together(now, w, put, waiting), s.together(now, w, gone, waiting)
	}
	slices.Sort(put)
	slices.Sort(gone)
	return put, gone, waits
}

// removes tells whether the protocol has a way, and the type a use, to say that a name is gone.
func (s *Session) removes(w *watch, ex *exception) bool {
	switch {
	case w.url == translate.ExtensionType:
		return false // a listener that still refers to it would fail every request
	case w.mode == wildcard:
		return ex.held != nil || ex.force || ex.doubt
	default:
		return s.cfg.Delta && (ex.held != nil || ex.doubt)
	}
}

// completeBody returns the whole set of a state-of-the-world type: where a name is kept back, what the client holds.
func (s *Session) completeBody(now time.Time, w *watch) *Body {
	if len(w.except) == 0 {
		return s.fullBody(now, w)
	}
	var set []*Resource
	for n, r := range items(w.states) {
		if !w.covers(n) {
			continue
		}
		if ex := w.except[n]; ex != nil {
			r = ex.held
		}
		if r != nil && r.Wrapped.Len() > 0 {
			set = append(set, r)
		}
	}
	for n, ex := range w.except {
		if target, _ := lookup(w.states, n); target == nil && ex.held != nil && ex.held.Wrapped.Len() > 0 {
			set = append(set, ex.held)
		}
	}
	slices.SortFunc(set, func(a, b *Resource) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return s.cfg.Bodies.Of(now, false, set)
}
