package xds

import (
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// refused tells whether the client rejected this very version.
func (w *watch) refused(name string, target *Resource) bool {
	q := w.quarantine[name]
	return q != nil && target != nil && q.Version == target.Version
}

// waits tells whether a name must be kept back because the order of make before break has not come to it.
func (s *Session) waits(now time.Time, w *watch, name string, ex *exception, target *Resource) bool {
	switch {
	case w.url == translate.ClusterType:
		return target == nil && !s.removable(now, ex)
	case w.url == translate.EndpointType:
		return ex.held != nil && target != ex.held && s.leaving(name)
	case followsClusters(w.url):
		if ex.force && ex.held == nil && !w.reconnect && !s.established() {
			return false // a first connect asks for everything at once and waits for nothing
		}
		return s.awaitsClusters(now, ex, target)
	}
	return false
}

// followsClusters tells whether resources of a type lead traffic to clusters.
func followsClusters(url string) bool {
	return url == translate.ListenerType || url == translate.RouteType || url == translate.VirtualHostType
}

// awaitsClusters tells whether a listener or route must wait for clusters that the client does not have in force yet.
func (s *Session) awaitsClusters(now time.Time, ex *exception, target *Resource) bool {
	limit := ex.noted.Add(s.cfg.Timing.ClusterWait)
	if !now.Before(limit) {
		return false
	}
	var needs []string
	if target != nil {
		needs = target.Clusters
	}
	until, outstanding := s.clustersOutstanding(now, needs)
	if !outstanding {
		return false
	}
	if until.Before(limit) {
		limit = until
	}
	s.wakeAt(limit)
	return true
}

// clustersOutstanding tells whether one of the clusters called names, or with nil names any cluster, is still to be sent
// or acknowledged, and until when to wait for it at most.
func (s *Session) clustersOutstanding(now time.Time, names []string) (until time.Time, outstanding bool) {
	cds := s.watches[translate.ClusterType]
	if cds == nil {
		return time.Time{}, false
	}
	wait := s.cfg.Timing.ClusterWait
	if cds.fresh {
		until = cds.asked.Add(wait)
		return until, now.Before(until)
	}
	if f := cds.flight; f != nil && !f.removal && now.Before(f.at.Add(wait)) && f.has(names) {
		return f.at.Add(wait), true
	}
	pending := func(n string, ex *exception) bool {
		target, _ := lookup(cds.states, n)
		if target == nil || cds.refused(n, target) {
			return false
		}
		until = ex.noted.Add(wait)
		return now.Before(until)
	}
	if names == nil {
		for n, ex := range cds.except {
			if pending(n, ex) {
				return until, true
			}
		}
		return time.Time{}, false
	}
	for _, n := range names {
		if ex := cds.except[n]; ex != nil && pending(n, ex) {
			return until, true
		}
	}
	return time.Time{}, false
}

// has tells whether the response carries one of names; with nil names, whether it carries anything.
func (f *flight) has(names []string) bool {
	if f.full || names == nil {
		return f.full || len(f.members) > 0
	}
	for _, n := range names {
		if _, ok := f.members[n]; ok {
			return true
		}
	}
	return false
}

// due returns what a name is to be brought to: what was published last. But a client that needs the endpoints of a
// leaving cluster once more, because the cluster was changed before, is sent those that it has: they stay as they are
// until the cluster goes, and without them the cluster would never be ready, nor its removal have its turn.
func (s *Session) due(w *watch, name string, ex *exception) (target *Resource, known bool) {
	if w.url == translate.EndpointType && ex.force && ex.held != nil && ex.held.Wrapped.Len() > 0 && s.leaving(name) {
		return ex.held, true
	}
	return lookup(w.states, name)
}

// leaving tells whether the cluster of these endpoints is about to be removed. Its endpoints stay as they are until
// then, for the routes that still lead there.
func (s *Session) leaving(name string) bool {
	cds := s.watches[translate.ClusterType]
	if cds == nil {
		return false
	}
	if cds.except[name] != nil {
		target, _ := lookup(cds.states, name)
		return target == nil
	}
	if cds.flight == nil {
		return false
	}
	m, ok := cds.flight.members[name]
	return ok && m.sent == nil
}

// removable tells whether a cluster that is gone may be removed: when the listeners and routes that were pending with
// it are acknowledged and the client's workers had time to follow, or when that takes too long. What becomes pending
// within that time of the removal counts too: users apply one object after the other, and the route away from a cluster
// may be in the commit after the one that takes it away.
func (s *Session) removable(now time.Time, ex *exception) bool {
	t := s.cfg.Timing
	limit := ex.noted.Add(2*t.ClusterWait + t.RemovalDelay)
	if !s.leadsTraffic() || !now.Before(limit) {
		return true
	}
	if now.Before(ex.noted.Add(t.RemovalDelay)) {
		ex.seq = s.seq
	}
	if !s.routesSettled(ex.seq) {
		ex.waited, ex.settled = true, time.Time{}
		s.wakeAt(limit)
		return false
	}
	at := ex.noted.Add(t.RemovalDelay)
	if ex.waited {
		if ex.settled.IsZero() {
			ex.settled = now
		}
		at = ex.settled.Add(t.RemovalDelay)
	}
	if now.Before(at) {
		s.wakeAt(at)
		return false
	}
	return true
}

// settledMemo keeps the last answer of routesSettled during one Next, in which nothing but sends change it.
type settledMemo struct {
	valid, is bool
	seq       uint64
}

// routesSettled tells whether the client acknowledged every listener and route that was pending at seq.
func (s *Session) routesSettled(seq uint64) bool {
	if m := s.settled; m.valid && m.seq == seq {
		return m.is
	}
	s.settled = settledMemo{valid: true, seq: seq, is: s.settledAt(seq)}
	return s.settled.is
}

func (s *Session) settledAt(seq uint64) bool {
	for _, url := range [...]string{translate.ListenerType, translate.RouteType, translate.VirtualHostType} {
		w := s.watches[url]
		if w == nil {
			continue
		}
		if (w.fresh || len(w.routes) > 0) && w.reconnect || w.flight != nil && w.flight.seq <= seq {
			return false
		}
		for n, ex := range w.except {
			if ex.seq > seq {
				continue
			}
			target, known := lookup(w.states, n)
			if w.refused(n, target) || w.byName && !known {
				continue
			}
			return false
		}
	}
	return true
}

// clustersSent sends the endpoints of clusters that were just sent (nil: all) right behind, if the client has asked for
// them before: Envoy warms a changed cluster again but does not ask again.
func (s *Session) clustersSent(now time.Time, clusters []*Resource) {
	eds := s.watches[translate.EndpointType]
	switch {
	case s.cfg.ByName: // gRPC clients keep the endpoints that they have
	case eds == nil:
		s.sentEarly(clusters)
	case clusters == nil && eds.always: // Envoy asks again itself
	case clusters == nil:
		eds.fresh = eds.names.Len() > 0
		for n := range eds.claims {
			eds.claims[n] = "" // no version is like this: send it though the client has it
		}
	case eds.fresh:
		for _, c := range clusters {
			if _, ok := eds.claims[c.Name]; ok {
				eds.claims[c.Name] = ""
			}
		}
	default:
		for _, c := range clusters {
			if eds.names.Has(c.Name) {
				s.owe(now, eds, c.Name)
			}
		}
	}
}

// sentEarly remembers clusters that a reconnecting client is sent before its request for endpoints has come. What that
// request claims to hold was true before they were.
func (s *Session) sentEarly(clusters []*Resource) {
	if !s.cfg.Delta {
		return
	}
	if s.voided == nil {
		s.voided = make(map[string]struct{}, len(clusters))
	}
	for _, c := range clusters {
		s.voided[c.Name] = struct{}{}
	}
}

// disbelieve takes back those claims about endpoints that clusters sent early have made void.
func (s *Session) disbelieve(eds *watch) {
	for n := range s.voided {
		if _, ok := eds.claims[n]; ok {
			eds.claims[n] = "" // no version is like this: send it though the client has it
		}
	}
	s.voided = nil
}

// established tells whether the client has clusters in force.
func (s *Session) established() bool {
	cds := s.watches[translate.ClusterType]
	return cds != nil && cds.nonces.acked != ""
}

// leadsTraffic tells whether the client has asked for what leads traffic to clusters.
func (s *Session) leadsTraffic() bool {
	return s.watches[translate.ListenerType] != nil || s.watches[translate.RouteType] != nil
}
