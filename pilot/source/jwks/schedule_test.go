package jwks

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/keyset"
	"github.com/mizzen-mesh/mizzen/pilot/model"
)

func exact(d time.Duration) time.Duration { return d }

// TestBackOff goes through failures in a row: some at once, then ever longer waits, and keys that nobody could confirm
// for a week go.
func TestBackOff(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	s := newSchedule(20*time.Minute, exact)
	s.observe([]model.Event{authn("a", byURI("https://a.example"))}, now)
	x := s.start(8, now)[0]
	set, err := keyset.Parse([]byte(keysA))
	if err != nil {
		t.Fatal(err)
	}
	if out := s.done(x, set, nil, now); len(out) != 1 || out[0].Object == nil {
		t.Fatalf("events %v", out)
	}
	if d := s.next().Sub(now); d != 20*time.Minute {
		t.Errorf("refreshed after %v", d)
	}
	good := now
	want := []time.Duration{1, 1, 1, 1, 1, 1, 1, 60, 120, 240, 480, 960, 1920, 3600, 3600}
	for i := range want {
		now = s.next()
		if l := s.start(8, now); len(l) != 1 || len(s.start(8, now)) != 0 {
			t.Fatalf("failure %d: started %d, or again while under way", i, len(l))
		}
		if out := s.done(x, nil, errors.New("no"), now); len(out) != 0 {
			t.Errorf("failure %d: events %v", i, out)
		}
		if d := s.next().Sub(now); d != want[i]*time.Second {
			t.Errorf("failure %d: waits %v", i, d)
		}
	}
	for x.set != nil {
		now = s.next()
		s.start(8, now)
		out := s.done(x, nil, errors.New("no"), now)
		if late := now.Sub(good) > keepFor; late != (len(out) == 1) || late && out[0].Object != nil {
			t.Fatalf("after %v: events %v", now.Sub(good), out)
		}
	}
	if out := s.done(x, set, nil, now); len(out) != 1 || x.failures != 0 {
		t.Errorf("recovered: events %v, failures %d", out, x.failures)
	}
	if out := s.done(x, set, nil, now); len(out) != 0 {
		t.Errorf("the same keys again: events %v", out)
	}
}

// TestBounds wants few fetches at a time, and an answer that comes when nobody names it any more to change nothing.
func TestBounds(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	s := newSchedule(time.Minute, exact)
	for _, n := range []string{"a", "b", "c"} {
		s.observe([]model.Event{authn(n, byURI("https://"+n+".example"))}, now)
	}
	l := s.start(2, now)
	if len(l) != 2 || s.settled() {
		t.Fatalf("%d started", len(l))
	}
	s.observe([]model.Event{authn("a"), authn("b"), authn("c")}, now)
	if out := s.done(l[0], &keyset.Set{JSON: keysA}, nil, now); len(out) != 0 || !s.settled() || !s.next().IsZero() {
		t.Errorf("events %v, next %v", out, s.next())
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rule         *security.JWTRule
		here, remote int
	}{
		"by URI":        {byURI("https://a.example"), 1, 0},
		"inline":        {&security.JWTRule{Issuer: "https://a.example", Jwks: keysA}, 0, 0},
		"by issuer":     {&security.JWTRule{Issuer: "https://a.example"}, 1, 1},
		"nowhere":       {&security.JWTRule{Issuer: "me@a.example"}, 0, 0},
		"another world": {byURI("file:///etc/passwd"), 0, 0},
	} {
		for remote, want := range map[bool]int{false: c.here, true: c.remote} {
			s := newSchedule(time.Minute, exact)
			s.remote = remote
			s.observe([]model.Event{authn("a", c.rule, c.rule)}, time.Time{})
			if len(s.targets) != want {
				t.Errorf("%s, proxies fetch %v: %d targets", name, remote, len(s.targets))
			}
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	f := filter{
		allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.9.0.0/16")},
		block: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	}
	for text, blocked := range map[string]bool{
		"127.0.0.1":              false,
		"::ffff:127.0.0.1":       false,
		"127.0.0.2":              true,
		"::1":                    true,
		"0.0.0.0":                true,
		"0.1.2.3":                true,
		"::":                     true,
		"169.254.169.254":        true,
		"::ffff:169.254.169.254": true,
		"64:ff9b::a9fe:a9fe":     true,
		"fe80::1%eth0":           true,
		"fd00:ec2::254":          true,
		"100.100.100.200":        true,
		"224.0.0.1":              true,
		"255.255.255.255":        true,
		"10.9.0.1":               true, // what is blocked wins
		"10.1.1.1":               true,
		"64:ff9b::a01:101":       true,
		"192.168.1.1":            false,
		"8.8.8.8":                false,
		"64:ff9b::808:808":       false,
		"2606:4700::1111":        false,
		"fd00::1":                false,
	} {
		if got := f.blocked(netip.MustParseAddr(text)); got != blocked {
			t.Errorf("%s: blocked %v", text, got)
		}
	}
	if f.control("tcp", "nonsense", nil) == nil || f.control("tcp", "[::1]:80", nil) == nil || f.control("tcp4", "8.8.8.8:443", nil) != nil {
		t.Error("the dialer is told otherwise")
	}
}
