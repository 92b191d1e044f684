package offline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// selectingObjects decide about web-2 by its labels, or not; each name says which.
const selectingObjects = `
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: web-strict, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: other, namespace: shop}
spec: {selector: {matchLabels: {app: other}}, mtls: {mode: DISABLE}}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: web-tokens, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, jwtRules: [{issuer: me, jwks: '{"keys":[]}'}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: other, namespace: shop}
spec: {selector: {matchLabels: {app: other}}, action: DENY, rules: [{}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: web-sidecar, namespace: shop}
spec: {workloadSelector: {labels: {app: web}}, egress: [{hosts: ['./*']}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: other, namespace: shop}
spec: {workloadSelector: {labels: {app: other}}, egress: [{hosts: ['~/*']}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: web-patch, namespace: shop}
spec:
  workloadSelector: {labels: {app: web}}
  configPatches:
  - {applyTo: LISTENER, match: {context: SIDECAR_INBOUND}, patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 4096}}}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: other, namespace: shop}
spec:
  workloadSelector: {labels: {app: other}}
  configPatches:
  - {applyTo: LISTENER, match: {context: SIDECAR_INBOUND}, patch: {operation: MERGE, value: {per_connection_buffer_limit_bytes: 4096}}}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: web-logs, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, accessLogging: [{disabled: true}]}
`

// TestSelectingObjectsAreNamed checks that resources are attributed to the objects that select a proxy, and walks to
// those that decide.
func TestSelectingObjectsAreNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "shop"))); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "selecting.yaml"), []byte(selectingObjects), 0o600); err != nil {
		t.Fatal(err)
	}
	p, in := startAt(t, dir)
	if len(in.Problems) > 0 {
		t.Fatal(in.Problems)
	}
	pod, err := p.Pod("shop/web-2")
	if err != nil {
		t.Fatal(err)
	}
	node, err := p.NodeOf(pod)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Ask(node, p.SubscriptionOf(node, nil))
	if err != nil {
		t.Fatal(err)
	}
	inbound := got[translate.ListenerType]["virtualInbound"]
	if inbound == nil {
		t.Fatal("no inbound listener")
	}
	for _, want := range []string{
		"AuthorizationPolicy/shop/no-admin", "PeerAuthentication/shop/web-strict", "RequestAuthentication/shop/web-tokens", "Sidecar/shop/web-sidecar",
		"EnvoyFilter/shop/web-patch", "Telemetry/shop/web-logs", "Service/shop/web",
	} {
		if !slices.ContainsFunc(inbound.Objects, func(k model.ObjectKey) bool { return k.String() == want }) {
			t.Errorf("the inbound listener is made of %v, which lacks %s", inbound.Objects, want)
		}
	}
	if slices.ContainsFunc(inbound.Objects, func(k model.ObjectKey) bool { return k.Name == "other" }) {
		t.Errorf("the inbound listener is made of %v", inbound.Objects)
	}
	endpoints := got[translate.EndpointType]["outbound|80||"+webHost]
	if endpoints == nil || !slices.Contains(endpoints.Objects, model.ObjectKey{Kind: model.KindEndpointSlice, Namespace: "shop", Name: "web-1"}) {
		t.Errorf("the endpoints are made of %+v", endpoints)
	}
	s, err := p.Simulate(Call{From: "shop/client", To: "http://web/new/x", Claims: map[string]any{"iss": "me"}})
	if err != nil || len(s.Inbound) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	var because []string
	for _, step := range s.Inbound[0].Steps {
		because = append(because, step.Because...)
	}
	for _, want := range []string{"PeerAuthentication/shop/web-strict", "RequestAuthentication/shop/web-tokens", "Sidecar/shop/web-sidecar", "EnvoyFilter/shop/web-patch"} {
		if !slices.Contains(because, want) {
			t.Errorf("the walk is because of %s, which lacks %s", strings.Join(because, ", "), want)
		}
	}
}
