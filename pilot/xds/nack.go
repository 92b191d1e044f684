package xds

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// Rejection is a resource that the client refused. It is held back until it changes.
type Rejection struct {
	TypeURL  string
	Resource string
	Version  string
	// Message is the client's text, cut at 2 KiB. It may quote configuration.
	Message string
	At      time.Time
	// Origin returns what made the resource, see Resource.Origin.
	Origin func() model.Origin
}

// rejection is the last NACK of a type.
type rejection struct {
	is   bool
	text string
	code codes.Code
	at   time.Time
}

// isolation finds the culprit of a rejected response by sending its members in ever smaller groups.
type isolation struct {
	groups   [][]string
	suspects map[string]struct{} // the members of all groups
	from     time.Time           // not before
	// begun is when the last search began or may begin.
	begun time.Time
}

// loneMembers is the number of members up to which each is sent alone instead of in halves.
const loneMembers = 8

// nack takes a request with error_detail.
func (s *Session) nack(now time.Time, r *Request) Effects {
	w := s.watches[r.TypeURL]
	if w == nil {
		return Effects{} // never watched: nothing can be meant
	}
	w.err = rejection{is: true, text: cut(r.Error.GetMessage(), maxErrorText), code: codes.Code(r.Error.GetCode()), at: now} //nolint:gosec // a wrong code stays a number
	if f := w.flight; f != nil && f.nonce == r.Nonce {
		w.flight = nil
		s.seq++
		s.reject(now, w, f, r.Error.GetMessage())
	}
	return Effects{Rejected: true}
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// reject finds out which members of a rejected response are to blame. For clusters and listeners Envoy names them and
// takes the rest; for other types, and for malformed messages, nobody knows what is in force.
func (s *Session) reject(now time.Time, w *watch, f *flight, message string) {
	w.releaseAgain(f)
	members := f.content(w.mode)
	names := make([]string, 0, len(members))
	for n := range members {
		names = append(names, n)
	}
	slices.Sort(names)
	culprits := blamed(w.url, message, names)
	if s.cfg.ByName {
		culprits = blamedByGRPC(message, names)
	}
	if len(culprits) == 0 && f.full && w.reconnect && w.mode == wildcard && !s.cfg.Delta {
		// What the client holds from before is not known, and a set with parts left out would take it away: it keeps
		// that until something changes.
		w.fresh, w.answer, w.stuck = true, true, f.states
		return
	}
	if len(names) == 1 {
		culprits = names
	}
	if len(culprits) > 0 {
		for _, n := range culprits {
			m := members[n]
			m.doubt = m.doubt || f.full && w.reconnect && !s.cfg.Delta // it may hold a version from before
			s.restore(now, w, n, m, f)
			s.hold(now, w, n, m.sent, message)
		}
		return
	}
	for n, m := range members {
		m.doubt = true
		s.restore(now, w, n, m, f)
	}
	if len(names) > 0 {
		s.isolate(now, w, names, f.isolated)
	}
}

// content returns what a response carried.
func (f *flight) content(m mode) map[string]member {
	if !f.full {
		return f.members
	}
	sent := &watch{mode: m, states: f.states, names: f.names, everything: f.everything}
	out := map[string]member{}
	for n := range sent.all() {
		if r, _ := lookup(f.states, n); r != nil {
			out[n] = member{sent: r}
		}
	}
	return out
}

// restore notes that the client still holds what it held before.
func (s *Session) restore(now time.Time, w *watch, name string, m member, f *flight) {
	if !w.covers(name) {
		return
	}
	ex := w.except[name]
	if ex == nil {
		ex = &exception{noted: now}
		w.except[name] = ex
	} else if ex.force && ex.held == nil {
		m.before = nil // since then it asked for it anew
	}
	ex.held, ex.doubt, ex.seq = m.before, m.doubt, f.seq
	if w.url == translate.RouteType && m.before == nil {
		s.routeLost(name)
	}
}

// hold quarantines a version.
func (s *Session) hold(now time.Time, w *watch, name string, sent *Resource, message string) {
	if sent == nil {
		delete(w.except, name) // a removal cannot be improved
		return
	}
	q := &Rejection{TypeURL: w.url, Resource: name, Version: sent.Version, Message: cut(message, maxErrorText), At: now, Origin: sent.Origin}
	if w.quarantine == nil {
		w.quarantine = map[string]*Rejection{}
	}
	w.quarantine[name] = q
}

// isolate queues names to be sent apart, before what else is queued.
func (s *Session) isolate(now time.Time, w *watch, names []string, again bool) {
	var groups [][]string
	if len(names) <= loneMembers {
		for i := range names {
			groups = append(groups, names[i:i+1])
		}
	} else {
		groups = [][]string{names[:len(names)/2], names[len(names)/2:]}
	}
	if w.suspects == nil {
		w.suspects = map[string]struct{}{}
	}
	for _, n := range names {
		w.suspects[n] = struct{}{}
	}
	w.groups = append(groups, w.groups...)
	if again {
		return
	}
	// At once, since what Envoy has in force of the rejected response may be little of it.
	w.from = now
	if next := w.begun.Add(s.cfg.Timing.Isolate); now.Before(next) {
		w.from = next
	}
	w.begun = w.from
}

// sendSuspects sends the next group of an isolation.
func (s *Session) sendSuspects(now time.Time, w *watch) *Response {
	if len(w.groups) == 0 {
		return nil
	}
	if now.Before(w.from) {
		s.wakeAt(w.from)
		return nil
	}
	for len(w.groups) > 0 {
		only := make(map[string]struct{}, len(w.groups[0]))
		for _, n := range w.groups[0] {
			only[n] = struct{}{}
			delete(w.suspects, n)
		}
		w.groups = w.groups[1:]
		if r := s.sendChanges(now, w, only); r != nil {
			return r
		}
	}
	return nil
}

// accepted ends the wait for a response that was acknowledged.
func (s *Session) accepted(w *watch, nonce string) {
	w.err = rejection{}
	w.nonces.acked = nonce
	f := w.flight
	if f == nil || f.nonce != nonce {
		return
	}
	w.flight = nil
	if len(w.quarantine) == 0 {
		return
	}
	for n, m := range f.content(w.mode) {
		if q := w.quarantine[n]; q != nil && (m.sent == nil || m.sent.Version != q.Version) {
			delete(w.quarantine, n)
		}
	}
}

// blamed returns those of names that the message blames, for the types whose messages do so reliably.
func blamed(url, message string, names []string) []string {
	if url != translate.ClusterType && url != translate.ListenerType {
		return nil
	}
	var out []string
	for _, n := range names {
		if blames(message, n) {
			out = append(out, n)
		}
	}
	return out
}

// blamedByGRPC returns those of names that the message of a gRPC client blames. It does so for all types, and takes the
// rest.
func blamedByGRPC(message string, names []string) []string {
	var out []string
	for _, n := range names {
		if strings.Contains(message, "resource "+strconv.Quote(n)+": ") {
			out = append(out, n)
		}
	}
	return out
}

// blames looks for "cluster(s) <name>: " or ", <name>: ". The known names are looked for because reasons hold commas
// and colons too.
func blames(message, name string) bool {
	for from := 0; ; {
		i := strings.Index(message[from:], name+": ")
		if i < 0 {
			return false
		}
		before := message[:from+i]
		if strings.HasSuffix(before, "(s) ") || strings.HasSuffix(before, ", ") || strings.HasSuffix(before, "\n") {
			return true
		}
		from += i + 1
	}
}

// Rejections returns what is held back, by type in push order and name.
func (s *Session) Rejections() []Rejection {
	var out []Rejection
	for _, w := range s.order {
		from := len(out)
		for _, q := range w.quarantine {
			out = append(out, *q)
		}
		slices.SortFunc(out[from:], func(a, b Rejection) int { return strings.Compare(a.Resource, b.Resource) })
	}
	return out
}
