package server

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	meshconfig "istio.io/api/mesh/v1alpha1"
	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/keyset"
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// fixed is a source that delivers some objects and nothing after.
type fixed []model.Event

func (fixed) Name() string { return "fixed" }

func (f fixed) Run(ctx context.Context, sink source.Sink) error {
	sink.Events("fixed", f)
	sink.Synced("fixed")
	<-ctx.Done()
	return nil
}

// TestKeysBeforeReady wants a control plane that starts to serve nobody before it has the keys that policies name: a
// restart would else take them from every proxy.
func TestKeysBeforeReady(t *testing.T) {
	t.Parallel()
	const keys = `{"keys":[{"kty":"RSA","n":"AAAA","e":"AQAB"}]}`
	release := make(chan struct{})
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-release
		_, _ = w.Write([]byte(keys))
	}))
	t.Cleanup(issuer.Close)
	k := model.ObjectKey{Kind: model.KindRequestAuthentication, Namespace: "shop", Name: "a"}
	rule := &security.JWTRule{Issuer: "x", JwksUri: issuer.URL}
	settings := model.DefaultSettings()
	settings.Raw = map[string]string{varKeysAllowed: "127.0.0.0/8,::1/128"}
	s, err := Start(t.Context(), Options{
		Settings: settings, Mesh: &model.Mesh{Config: &meshconfig.MeshConfig{}}, ShutdownDuration: time.Second,
		Sources: []source.Source{fixed{{Key: k, Object: &model.Object{
			ObjectKey: k, Spec: &security.RequestAuthentication{JwtRules: []*security.JWTRule{rule}},
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	if s.Ready() {
		t.Error("ready before the issuer has answered")
	}
	close(release)
	select {
	case <-s.Started():
	case <-time.After(20 * time.Second):
		t.Fatal("not ready")
	}
	q, _ := keyset.RequestOf(rule)
	o := model.NewReader(s.loop.Current(), nil).Object(q.Key())
	if o == nil {
		t.Fatal("ready without keys")
	}
	if set, ok := o.Spec.(*keyset.Set); !ok || set.JSON != keys {
		t.Errorf("keys %+v", o.Spec)
	}
}

func TestCheckedVariables(t *testing.T) {
	t.Parallel()
	for name, values := range map[string]map[string]bool{
		varRemoteKeys:  {"false": true, "istiod": true, "true": true, "hybrid": true, "envoy": true, "yes": false},
		varKeyRefresh:  {"20m": true, "0s": false, "-1s": false, "soon": false},
		varKeysBlocked: {"10.0.0.0/8, fd00::/8": true, "10.0.0.1": false, "x": false},
		varKeysAllowed: {"127.0.0.0/8": true, "127.0.0.1/33": false},
		varAllocateV4:  {"10.0.0.0/8": true, "fd00::/8": false, "10.0.0.1": false},
		varAllocateV6:  {"fd00::/64": true, "10.0.0.0/8": false},
		varElect:       {"false": true, "never": false},
		varPodName:     {"istiod-1": true},
	} {
		for text, good := range values {
			s, errs := ParseSettings(func(n string) (string, bool) { return text, n == name })
			if (len(errs) == 0) != good || good != (s.Raw[name] == text) {
				t.Errorf("%s=%s: %v, %v", name, text, errs, s.Raw)
			}
		}
	}
}
