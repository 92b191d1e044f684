package envoy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// ask sends a request with a token, or without one, and fails unless it is answered with that status.
func ask(m *world.Mesh, token string, status int) func(context.Context) error {
	return func(ctx context.Context) error {
		q, err := http.NewRequestWithContext(ctx, http.MethodGet, m.URL(), http.NoBody)
		if err != nil {
			return err
		}
		q.Host = m.Authority()
		if token != "" {
			q.Header.Set("Authorization", "Bearer "+token)
		}
		a, err := http.DefaultTransport.RoundTrip(q)
		if err != nil {
			return err
		}
		defer func() { _ = a.Body.Close() }()
		if a.StatusCode != status {
			return fmt.Errorf("status %d, want %d", a.StatusCode, status)
		}
		return nil
	}
}

// Keys are fetched from where a policy says, changed ones followed, and the last good ones kept when their issuer fails.
// Where none were ever fetched no token is good.
func TestFetchedKeys(t *testing.T) {
	t.Parallel()
	first, second := harness.NewSigner(t, "first"), harness.NewSigner(t, "second")
	var answer atomic.Value
	var failures atomic.Int32
	answer.Store(first.Keys())
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text, _ := answer.Load().(string)
		if text == "" {
			failures.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(issuer.Close)
	good := func(s *harness.Signer) string {
		return s.Token(t, map[string]any{"iss": "me", "sub": "me", "exp": time.Now().Add(time.Hour).Unix()})
	}
	p, m := small(t, 1, func(s *model.Settings) {
		s.Raw = map[string]string{"MIZZEN_JWKS_ALLOWED_CIDRS": "127.0.0.0/8", "PILOT_JWT_PUB_KEY_REFRESH_INTERVAL": "100ms"}
	})
	policy := func(uri string) string {
		return fmt.Sprintf("apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: tokens, namespace: %s}\nspec: {jwtRules: [{issuer: me, jwksUri: %q}]}\n", world.Namespace, uri)
	}
	write(t, p.dir, "tokens.yaml", policy(issuer.URL))
	const patience = 20 * time.Second
	harness.Eventually(t, patience, ask(m, good(second), http.StatusUnauthorized))
	harness.Eventually(t, patience, ask(m, good(first), http.StatusOK))
	harness.Eventually(t, patience, ask(m, "", http.StatusOK))
	answer.Store("")
	before := p.Generation()
	harness.Eventually(t, patience, func(context.Context) error {
		if failures.Load() < 2 { // the first has been taken note of when the second comes
			return errors.New("no failure yet")
		}
		return nil
	})
	harness.Eventually(t, patience, ask(m, good(first), http.StatusOK))
	if p.Generation() != before {
		t.Error("a failed fetch changed something")
	}
	answer.Store(second.Keys())
	harness.Eventually(t, patience, ask(m, good(second), http.StatusOK))
	harness.Eventually(t, patience, ask(m, good(first), http.StatusUnauthorized))
	if p.Generation() == before {
		t.Error("keys changed without a generation")
	}
	write(t, p.dir, "tokens.yaml", policy("http://127.0.0.1:1/keys"))
	harness.Eventually(t, patience, ask(m, good(second), http.StatusUnauthorized))
	harness.Eventually(t, patience, ask(m, "", http.StatusOK))
	noRejections(t, m)
}
