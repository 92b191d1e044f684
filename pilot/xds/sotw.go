package xds

import (
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// requestSotw takes a state-of-the-world request.
func (s *Session) requestSotw(now time.Time, r *Request) Effects {
	if r.Error != nil {
		return s.nack(now, r)
	}
	w := s.watches[r.TypeURL]
	if len(r.Names) == 0 && s.modeOf(r.TypeURL) == named {
		if w == nil {
			return Effects{}
		}
		s.closeWatch(w)
		return Effects{Demand: []Demand{{TypeURL: r.TypeURL}}}
	}
	// As long as nothing was sent, a nonce can only be of another stream or of before the client had no names.
	if w == nil || r.Nonce == "" || w.nonces.sent == "" {
		return s.beginSotw(now, w, r)
	}
	if r.Nonce != w.nonces.sent {
		return Effects{Stale: true}
	}
	s.accepted(w, r.Nonce)
	eff, added, removed := s.rename(w, r.Names)
	switch {
	case w.always:
		w.always, w.fresh, w.asked = false, true, now
	case len(added) > 0 && w.mode == named:
		for _, n := range added {
			s.owe(now, w, n)
			w.except[n].held = nil
		}
	case len(added)+len(removed) > 0 && w.mode == wildcard:
		w.fresh, w.asked, w.answer = true, now, true
	}
	return eff
}

// beginSotw begins a type anew: the first request for it, or one without a nonce.
func (s *Session) beginSotw(now time.Time, w *watch, r *Request) Effects {
	if w == nil {
		w = s.open(r.TypeURL)
	}
	eff, _, _ := s.rename(w, r.Names)
	w.flight, w.nonces, w.isolation = nil, nonces{}, isolation{}
	w.fresh, w.asked, w.reconnect = true, now, r.Version != "" || r.Nonce != ""
	w.always = false
	w.answer = w.mode == wildcard && r.TypeURL != translate.NameTableType
	switch {
	case w.mode != wildcard || !w.served:
	case !w.byName:
		eff.Use = []string{r.TypeURL}
	case w.names.Len() == 0:
		eff.Demand = []Demand{{TypeURL: r.TypeURL}} // no names, which is answered too
	}
	if eds := s.watches[translate.EndpointType]; r.TypeURL == translate.ClusterType && eds != nil {
		eds.always = true // Envoy asks with an acknowledged nonce again when its clusters are built anew
	}
	return eff
}

// rename replaces the names of a watch.
func (s *Session) rename(w *watch, names []string) (eff Effects, added, removed []string) {
	next := s.cfg.Names.Of(names)
	if next.Len() > maxNames || next.size() > maxNameBytes {
		return Effects{Err: errTooMuch}, nil, nil
	}
	w.everything = w.mode == wildcard && !w.byName && (len(names) == 0 || !listed(w.url))
	if next == w.names {
		return Effects{}, nil, nil
	}
	for n := range next.All() {
		if !w.names.Has(n) {
			added = append(added, n)
		}
	}
	for n := range w.names.All() {
		if !next.Has(n) {
			removed = append(removed, n)
			w.forget(n)
		}
	}
	w.names = next
	if w.byName && w.served {
		eff.Demand = []Demand{{TypeURL: w.url, Names: next}}
	}
	return eff, added, removed
}

// listed tells whether a wildcard type may be asked for by name, as gRPC clients do.
func listed(url string) bool { return url == translate.ClusterType || url == translate.ListenerType }

// forget drops what is known about a name that is no longer wanted.
func (w *watch) forget(name string) {
	delete(w.except, name)
	delete(w.quarantine, name)
	delete(w.suspects, name)
}
