package jwks

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/keyset"
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

const (
	keysA = `{"keys":[{"kty":"RSA","n":"AAAA","e":"AQAB","kid":"a"}]}`
	keysB = `{"keys":[{"kty":"RSA","n":"BBBB","e":"AQAB","kid":"b"}]}`
	// patience is how long a test waits for what must happen.
	patience = 20 * time.Second
)

// authn is a change of an object that names keys.
func authn(name string, rules ...*security.JWTRule) model.Event {
	k := model.ObjectKey{Kind: model.KindRequestAuthentication, Namespace: "shop", Name: name}
	if rules == nil {
		return model.Event{Key: k}
	}
	return model.Event{Key: k, Object: &model.Object{ObjectKey: k, Spec: &security.RequestAuthentication{JwtRules: rules}}}
}

func byURI(uri string) *security.JWTRule { return &security.JWTRule{Issuer: "x", JwksUri: uri} }

// sink keeps what a fetcher delivers.
type sink struct {
	mu       sync.Mutex
	rows     map[model.ObjectKey]string
	problems []source.Problem
	synced   bool
	changed  chan struct{}
}

func (s *sink) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *sink) Events(_ string, events []model.Event) {
	s.change(func() {
		for _, e := range events {
			if e.Object == nil {
				delete(s.rows, e.Key)
			} else if set, ok := e.Object.Spec.(*keyset.Set); ok {
				s.rows[e.Key] = set.JSON
			}
		}
	})
}

func (s *sink) Synced(string) { s.change(func() { s.synced = true }) }
func (s *sink) Problems(_ string, list []source.Problem) {
	s.change(func() { s.problems = slices.Clone(list) })
}

// await waits until ok holds of what was delivered.
func (s *sink) await(t testing.TB, what string, ok func(s *sink) bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		s.mu.Lock()
		yes := ok(s)
		s.mu.Unlock()
		if yes {
			return
		}
		select {
		case <-s.changed:
		case <-limit:
			s.mu.Lock()
			defer s.mu.Unlock()
			t.Fatalf("waited in vain until %s; rows %v, problems %v, synced %v", what, s.rows, s.problems, s.synced)
		}
	}
}

// holds tells whether the row of a URI has that text.
func holds(uri, text string) func(*sink) bool {
	return func(s *sink) bool { return s.rows[keyset.Request{URI: uri}.Key()] == text }
}

func failed(s *sink) bool { return len(s.problems) > 0 }

// start runs a fetcher that may connect to this machine unless o says something else. The test ends when Run has.
func start(t testing.TB, o Options) (*Fetcher, *sink) {
	t.Helper()
	if o.Allow == nil {
		o.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	f, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{rows: map[model.ObjectKey]string{}, changed: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx, s) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("Run does not end")
		}
	})
	return f, s
}

// issuer is a server whose answer can be changed.
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	answer http.HandlerFunc
	asked  int
}

func newIssuer(t testing.TB, secure bool, answer http.HandlerFunc) *issuer {
	t.Helper()
	i := &issuer{answer: answer}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.asked++
		a := i.answer
		i.mu.Unlock()
		a(w, r)
	})
	if secure {
		i.Server = httptest.NewTLSServer(h)
	} else {
		i.Server = httptest.NewServer(h)
	}
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) set(answer http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// roots returns the authority of an issuer over TLS.
func (i *issuer) roots() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
}

func says(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}
