package jwks

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/keyset"
	"github.com/mizzen-mesh/mizzen/pilot/model"
)

func TestFetch(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		i := newIssuer(t, secure, says(" "+keysA+"\n"))
		o := Options{}
		if secure {
			o.Roots = i.roots()
		}
		f, s := start(t, o)
		f.Observe([]model.Event{authn("a", byURI(i.URL)), authn("b", byURI(i.URL))})
		f.Begin()
		s.await(t, "keys are there", holds(i.URL, keysA))
		s.await(t, "it has synced", func(s *sink) bool { return s.synced })
		if i.count() != 1 {
			t.Errorf("two objects that name the same: %d requests", i.count())
		}
		f.Observe([]model.Event{authn("a")})
		f.Observe([]model.Event{authn("b", &security.JWTRule{Issuer: "x", Jwks: keysB, JwksUri: i.URL})})
		s.await(t, "nobody names them any more", holds(i.URL, ""))
	}
}

func TestUnknownAuthority(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, true, says(keysA))
	f, s := start(t, Options{})
	f.Observe([]model.Event{authn("a", byURI(i.URL))})
	f.Begin()
	s.await(t, "it is reported", failed)
	s.await(t, "it has synced nevertheless", func(s *sink) bool { return s.synced })
	if !holds(i.URL, "")(s) {
		t.Error("keys of an issuer that nobody vouches for")
	}
	if _, err := New(Options{Roots: []byte("none")}); err == nil {
		t.Error("no error for authorities that cannot be read")
	}
}

// TestRotation follows changed keys, keeps the last good ones when the issuer fails, and follows again.
func TestRotation(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, false, says(keysA))
	f, s := start(t, Options{Refresh: 10 * time.Millisecond})
	f.Observe([]model.Event{authn("a", byURI(i.URL))})
	s.await(t, "the first keys are there", holds(i.URL, keysA))
	i.set(says(keysB))
	s.await(t, "the second keys are there", holds(i.URL, keysB))
	for name, bad := range map[string]http.HandlerFunc{
		"a status":   status(http.StatusServiceUnavailable),
		"not JSON":   says("<html>"),
		"no keys":    says(`{"keys":[]}`),
		"other JSON": says(`{"access_key":"secret"}`),
	} {
		i.set(bad)
		s.await(t, "the failure is reported: "+name, failed)
		s.mu.Lock()
		if !holds(i.URL, keysB)(s) {
			t.Errorf("%s: the last good keys are gone", name)
		}
		if p := s.problems[0]; p.Object.Name != "a" || strings.Contains(p.Message, "secret") || !strings.Contains(p.Message, "last good") {
			t.Errorf("%s: %+v", name, p)
		}
		s.mu.Unlock()
		i.set(says(keysB))
		s.await(t, "all is well again", func(s *sink) bool { return !failed(s) })
	}
	i.set(says(keysA))
	s.await(t, "the first keys are back", holds(i.URL, keysA))
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, false, nil)
	i.set(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/realm/.well-known/openid-configuration":
			says(`{"issuer":"x","jwks_uri":"`+i.URL+`/keys"}`)(w, r)
		case "/keys":
			says(keysA)(w, r)
		default:
			status(http.StatusNotFound)(w, r)
		}
	})
	f, s := start(t, Options{})
	rule := &security.JWTRule{Issuer: i.URL + "/realm/"}
	f.Observe([]model.Event{authn("a", rule)})
	q, ok := keyset.RequestOf(rule)
	if !ok || !q.Discovery {
		t.Fatalf("%+v, %v", q, ok)
	}
	s.await(t, "keys are there", func(s *sink) bool { return s.rows[q.Key()] == keysA })
}

// TestRefused wants no keys, a report, and no harm to a neighbour from each of these.
func TestRefused(t *testing.T) {
	t.Parallel()
	inner := newIssuer(t, false, says(keysA))
	loop, stop := "", make(chan struct{})
	t.Cleanup(func() { close(stop) })
	for name, answer := range map[string]http.HandlerFunc{
		"a huge body": func(w http.ResponseWriter, _ *http.Request) {
			chunk := []byte(strings.Repeat(" ", 64<<10))
			for range 2*maxBody/len(chunk) + 1 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
		"a slow body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(keysA[:10]))
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		},
		"a redirect to a forbidden address": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
		},
		"a redirect to a blocked address": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, strings.Replace(inner.URL, "127.0.0.1", "127.0.0.2", 1), http.StatusFound)
		},
		"a redirect to a file": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		},
		"a redirect without end": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, loop+"/again", http.StatusFound) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIssuer(t, false, answer)
			good := newIssuer(t, false, says(keysB))
			f, s := start(t, Options{Timeout: time.Second, Block: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
			f.Observe([]model.Event{authn("a", byURI(i.URL)), authn("good", byURI(good.URL))})
			s.await(t, "the neighbour's keys are there", holds(good.URL, keysB))
			s.await(t, "it is reported", failed)
			if s.mu.Lock(); !holds(i.URL, "")(s) {
				t.Errorf("keys %v", s.rows)
			}
			s.mu.Unlock()
		})
	}
}

// TestThisMachine wants nothing to be asked of this machine unless that is allowed.
func TestThisMachine(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, false, says(keysA))
	f, s := start(t, Options{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	f.Observe([]model.Event{authn("a", byURI(i.URL)), authn("b", byURI(strings.Replace(i.URL, "127.0.0.1", "localhost", 1)))})
	s.await(t, "both are reported", func(s *sink) bool { return len(s.problems) == 2 })
	if n := i.count(); n != 0 {
		t.Errorf("%d requests", n)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStopped ends Run in the middle of a fetch.
func TestStopped(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{}, parallel)
	i := newIssuer(t, false, func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	})
	f, _ := start(t, Options{Timeout: time.Hour}) // its cleanup wants Run to end
	f.Observe([]model.Event{authn("a", byURI(i.URL))})
	select {
	case <-asked:
	case <-time.After(patience):
		t.Fatal("not asked")
	}
}
