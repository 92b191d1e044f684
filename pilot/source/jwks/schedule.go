package jwks

import (
	"cmp"
	"slices"
	"time"

	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/keyset"
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

const (
	// soon is the wait after each of the first failures in a row, and soonTimes is how many those are.
	soon      = time.Second
	soonTimes = 7
	// later is the wait after the next failure. It doubles up to latest.
	later  = time.Minute
	latest = time.Hour
	// keepFor is how long keys are trusted that could not be confirmed since.
	keepFor = 7 * 24 * time.Hour
)

// schedule says what is to be fetched when. It belongs to one goroutine and does nothing by itself.
type schedule struct {
	refresh time.Duration
	spread  func(time.Duration) time.Duration // varies a wait a little
	// remote is set if proxies fetch by themselves what is named by URI.
	remote  bool
	named   map[model.ObjectKey][]keyset.Request
	targets map[keyset.Request]*target
}

// target is one place where keys are.
type target struct {
	keyset.Request
	users    map[model.ObjectKey]struct{}
	due      time.Time
	running  bool
	tried    bool
	failures int // in a row
	err      error
	set      *keyset.Set
	good     time.Time // when set was confirmed last
}

func newSchedule(refresh time.Duration, spread func(time.Duration) time.Duration) *schedule {
	return &schedule{
		refresh: refresh, spread: spread,
		named: map[model.ObjectKey][]keyset.Request{}, targets: map[keyset.Request]*target{},
	}
}

// observe takes changes of objects. It returns the removal of keys that nobody names any more.
func (s *schedule) observe(events []model.Event, now time.Time) []model.Event {
	var out []model.Event
	for _, e := range events {
		if e.Key.Kind != model.KindRequestAuthentication {
			continue
		}
		before := s.named[e.Key]
		delete(s.named, e.Key)
		for _, r := range s.requests(e.Object) {
			s.named[e.Key] = append(s.named[e.Key], r)
			t := s.targets[r]
			if t == nil {
				t = &target{Request: r, users: map[model.ObjectKey]struct{}{}, due: now}
				s.targets[r] = t
			}
			t.users[e.Key] = struct{}{}
		}
		for _, r := range before {
			t := s.targets[r]
			if t == nil || slices.Contains(s.named[e.Key], r) {
				continue
			}
			delete(t.users, e.Key)
			if len(t.users) > 0 {
				continue
			}
			delete(s.targets, r)
			if t.set != nil {
				out = append(out, model.Event{Key: r.Key()})
			}
		}
	}
	return out
}

// requests returns what an object names.
func (s *schedule) requests(o *model.Object) []keyset.Request {
	if o == nil {
		return nil
	}
	spec, ok := o.Spec.(*security.RequestAuthentication)
	if !ok {
		return nil
	}
	var out []keyset.Request
	for _, rule := range spec.GetJwtRules() {
		if r, ok := keyset.RequestOf(rule); ok && (r.Discovery || !s.remote) && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	return out
}

// start returns up to n targets that are due, those that wait longest first, and notes that they are being fetched.
func (s *schedule) start(n int, now time.Time) []*target {
	var out []*target
	for _, t := range s.targets {
		if !t.running && !t.due.After(now) {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *target) int { return cmp.Or(a.due.Compare(b.due), cmp.Compare(a.URI, b.URI)) })
	out = out[:min(n, len(out))]
	for _, t := range out {
		t.running = true
	}
	return out
}

// next returns when the next target is due; zero if none is.
func (s *schedule) next() time.Time {
	var out time.Time
	for _, t := range s.targets {
		if !t.running && (out.IsZero() || t.due.Before(out)) {
			out = t.due
		}
	}
	return out
}

// done takes the outcome of a fetch. It returns the change of the row, if there is one.
func (s *schedule) done(t *target, set *keyset.Set, err error, now time.Time) []model.Event {
	t.running, t.tried, t.err = false, true, err
	if s.targets[t.Request] != t {
		return nil // nobody names it any more
	}
	if err == nil {
		same := t.set != nil && t.set.JSON == set.JSON
		t.failures, t.set, t.good, t.due = 0, set, now, now.Add(s.spread(s.refresh))
		if same {
			return nil
		}
		return []model.Event{{Key: t.Key(), Object: &model.Object{ObjectKey: t.Key(), Spec: set}}}
	}
	t.failures++
	t.due = now.Add(s.spread(backOff(t.failures)))
	if t.set != nil && now.Sub(t.good) > keepFor {
		t.set = nil
		return []model.Event{{Key: t.Key()}}
	}
	return nil
}

// backOff returns the wait after that many failures in a row.
func backOff(failures int) time.Duration {
	if failures <= soonTimes {
		return soon
	}
	d := later
	for range failures - soonTimes - 1 {
		if d *= 2; d >= latest {
			return latest
		}
	}
	return d
}

// settled tells whether every target has been tried once.
func (s *schedule) settled() bool {
	for _, t := range s.targets {
		if !t.tried {
			return false
		}
	}
	return true
}

// problems returns what could not be fetched the last time, for each object that names it.
func (s *schedule) problems() []source.Problem {
	var out []source.Problem
	for _, t := range s.targets {
		if t.err == nil {
			continue
		}
		state := "tokens are refused"
		if t.set != nil {
			state = "the last good keys stay in force"
		}
		for k := range t.users {
			out = append(out, source.Problem{Code: "fetch", Object: k, Field: "spec.jwtRules", Message: t.err.Error() + "; " + state})
		}
	}
	slices.SortFunc(out, func(a, b source.Problem) int {
		return cmp.Or(a.Object.Compare(b.Object), cmp.Compare(a.Message, b.Message))
	})
	return out
}
