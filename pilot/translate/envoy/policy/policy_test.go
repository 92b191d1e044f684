package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// object returns an object "namespace/name" with a spec in YAML.
func object(t testing.TB, k model.Kind, row, spec string, annotations map[string]string) *model.Object {
	t.Helper()
	var into any = &security.AuthorizationPolicy{}
	switch k {
	case model.KindRequestAuthentication:
		into = &security.RequestAuthentication{}
	case model.KindServiceEntry:
		into = &networking.ServiceEntry{}
	case model.KindSidecar:
		into = &networking.Sidecar{}
	}
	if err := yaml.Unmarshal([]byte(spec), into); err != nil {
		t.Fatal(err)
	}
	ns, name, _ := strings.Cut(row, "/")
	return &model.Object{
		ObjectKey: model.ObjectKey{Kind: k, Namespace: ns, Name: name}, Created: time.Unix(1, 0), Spec: into,
		Annotations: annotations,
	}
}

// policies returns the policies that apply to a proxy of namespace shop.
func policies(t testing.TB, mesh *meshconfig.MeshConfig, stock bool, objects ...*model.Object) *Set {
	t.Helper()
	mesh.RootNamespace = "istio-system"
	b := model.NewBuilder(model.DefaultSettings(), &model.Mesh{Config: mesh})
	events := make([]model.Event, len(objects))
	for i, o := range objects {
		events[i] = model.Event{Key: o.ObjectKey, Object: o}
	}
	pc, _ := b.Apply(events, nil)
	meta, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes", "LABELS": map[string]any{"app": "api"},
	})
	if err != nil {
		t.Fatal(err)
	}
	n := &corev3.Node{Id: "sidecar~10.0.0.1~api-1.shop~shop.svc.cluster.local", Metadata: meta}
	if stock {
		n.Extensions = []*corev3.Extension{{Name: "envoy.filters.http.router"}}
	}
	p, err := view.ParseNode(n, view.NodeDefaults{})
	if err != nil {
		t.Fatal(err)
	}
	g := cell.New()
	view.DefineScope(g, func() *model.PushContext { return pc })
	c := view.NewContext(pc, &cell.Recorder{}, g, view.Of(model.NewReader(pc, nil), p))
	return New(c, filter.New(c))
}

// jsonOf gives a filter's configuration as canonical JSON.
func jsonOf(t testing.TB, m proto.Message) string {
	t.Helper()
	b, err := json.Marshal(fixture.Value(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func httpText(t testing.TB, list []*hcmv3.HttpFilter) string {
	t.Helper()
	var out []string
	for _, f := range list {
		m, err := f.GetTypedConfig().UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := m.(interface{ ValidateAll() error }); !ok || v.ValidateAll() != nil {
			t.Errorf("%s: %v", f.Name, v.ValidateAll())
		}
		out = append(out, f.Name+" "+jsonOf(t, m))
	}
	return strings.Join(out, "\n")
}

// connection returns the filters of a TCP chain in their order.
func connection(s *Set) []*listenerv3.Filter {
	p := s.TCP()
	return append(p.Custom, p.Authz...)
}

func tcpText(t testing.TB, list []*listenerv3.Filter) string {
	t.Helper()
	var out []string
	for _, f := range list {
		m, err := f.GetTypedConfig().UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, f.Name+" "+jsonOf(t, m))
	}
	return strings.Join(out, "\n")
}

const never = `{"permissions":[{"not_rule":{"any":true}}],"principals":[{"not_id":{"any":true}}]}`

// TestRulesThatCannotBeSaid checks that what does not fit a chain never opens it.
func TestRulesThatCannotBeSaid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, spec, http, tcp string }{
		{
			"nothing is allowed", `{}`,
			`{"policies":{"ns[shop]-policy[p]-rule[0]":` + never + `}}`, `{"policies":{"ns[shop]-policy[p]-rule[0]":` + never + `}}`,
		},
		{
			"an allowed path opens no connection", `{rules: [{to: [{operation: {paths: [/a]}}]}]}`,
			`"exact":"/a"`, `"rules":{}`,
		},
		{
			"a denied path closes every connection", `{action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}`,
			`"exact":"/a"`, `"permissions":[{"and_rules":{"rules":[{"any":true}]}}]`,
		},
		{
			"an allowed port that is none opens nothing", `{rules: [{to: [{operation: {ports: [http]}}]}]}`,
			`"rules":{}`, `"rules":{}`,
		},
		{
			"a rule of an unknown condition is no rule", `{rules: [{when: [{key: unknown.key, values: [x]}]}]}`,
			`"rules":{}`, `"rules":{}`,
		},
		{
			"an empty rule allows all", `{rules: [{}]}`,
			`"principals":[{"and_ids":{"ids":[{"any":true}]}}]`, `"principals":[{"and_ids":{"ids":[{"any":true}]}}]`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := policies(t, &meshconfig.MeshConfig{TrustDomain: "td1"}, false, object(t, model.KindAuthorizationPolicy, "shop/p", c.spec, nil))
			if got := httpText(t, s.HTTP().Authz); !strings.Contains(got, c.http) {
				t.Errorf("HTTP: %s, want it to hold %s", got, c.http)
			}
			if got := tcpText(t, connection(s)); !strings.Contains(got, c.tcp) {
				t.Errorf("TCP: %s, want it to hold %s", got, c.tcp)
			}
		})
	}
}

// TestTrustDomainAliases checks that a principal counts in all names of its trust domain.
func TestTrustDomainAliases(t *testing.T) {
	t.Parallel()
	s := policies(t, &meshconfig.MeshConfig{TrustDomain: "td1", TrustDomainAliases: []string{"td2"}}, false, object(t, model.KindAuthorizationPolicy,
		"shop/p", `{rules: [{from: [{source: {principals: [cluster.local/ns/a/sa/b, other/ns/a/sa/b]}}]}]}`, nil))
	got := httpText(t, s.HTTP().Authz)
	for _, want := range []string{"spiffe://td1/ns/a/sa/b", "spiffe://td2/ns/a/sa/b", "spiffe://other/ns/a/sa/b"} {
		if !strings.Contains(got, `"exact":"`+want+`"`) {
			t.Errorf("%s is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "cluster.local") {
		t.Errorf("the written trust domain is still there: %s", got)
	}
}

// TestDryRun checks that a policy on trial is watched and not enforced.
func TestDryRun(t *testing.T) {
	t.Parallel()
	s := policies(t, &meshconfig.MeshConfig{}, false, object(t, model.KindAuthorizationPolicy, "shop/p",
		`{action: DENY, rules: [{}]}`, map[string]string{dryRunAnnotation: "true"}))
	got := httpText(t, s.HTTP().Authz)
	if !strings.Contains(got, `"shadow_rules":{"action":"DENY"`) || strings.Contains(got, `"rules":{"action"`) ||
		!strings.Contains(got, shadowDeny) {
		t.Error(got)
	}
}

// TestProviderOutOfReach checks that requests up to a provider whose cluster the proxy lacks are denied: its Sidecar hides
// the service, or the service has no such port.
func TestProviderOutOfReach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, service, sidecar string
		port                   uint32
		asked                  bool
	}{
		{"no Sidecar", "authz.example", "", 9000, true},
		{"with a namespace", "infra/authz.example", "", 9000, true},
		{"in the scope", "infra/authz.example", "{egress: [{hosts: [infra/*]}]}", 9000, true},
		{"hidden", "infra/authz.example", "{egress: [{hosts: [./*]}]}", 9000, false},
		{"another port is in the scope", "infra/authz.example", "{egress: [{port: {number: 9001, protocol: GRPC, name: g}, hosts: [infra/*]}]}", 9000, false},
		{"no such port", "authz.example", "", 9002, false},
		{"another namespace", "shop/authz.example", "", 9000, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			mesh := &meshconfig.MeshConfig{ExtensionProviders: []*meshconfig.MeshConfig_ExtensionProvider{{
				Name: "p", Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyExtAuthzGrpc{EnvoyExtAuthzGrpc: &grpcProvider{Service: c.service, Port: c.port}},
			}}}
			objects := []*model.Object{
				object(t, model.KindServiceEntry, "infra/authz", `{hosts: [authz.example], resolution: DNS, ports: [{number: 9000, name: a, protocol: GRPC}, {number: 9001, name: b, protocol: GRPC}]}`, nil),
				object(t, model.KindAuthorizationPolicy, "shop/a", `{action: CUSTOM, provider: {name: p}, rules: [{to: [{operation: {ports: ["80"]}}]}]}`, nil),
			}
			if c.sidecar != "" {
				objects = append(objects, object(t, model.KindSidecar, "shop/s", c.sidecar, nil))
			}
			s := policies(t, mesh, true, objects...)
			for what, text := range map[string]string{"HTTP": httpText(t, s.customHTTP()), "TCP": tcpText(t, connection(s))} {
				if asks, denies := strings.Contains(text, ".ext_authz "), strings.Contains(text, badSuffix); asks != c.asked || denies == c.asked {
					t.Errorf("%s: %s", what, text)
				}
			}
		})
	}
}

// TestUnknownProvider checks that requests up to a provider that is not there are denied.
func TestUnknownProvider(t *testing.T) {
	t.Parallel()
	s := policies(t, &meshconfig.MeshConfig{}, false, object(t, model.KindAuthorizationPolicy, "shop/p",
		`{action: CUSTOM, provider: {name: gone}, rules: [{to: [{operation: {paths: [/a]}}]}]}`, nil))
	for name, got := range map[string]string{"HTTP": httpText(t, s.HTTP().Custom), "TCP": tcpText(t, connection(s))} {
		if !strings.Contains(got, `"rules":{"action":"DENY"`) || !strings.Contains(got, badSuffix) || strings.Contains(got, "ext_authz") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestSelectors checks which policies apply to a proxy of namespace shop labelled app=api.
func TestSelectors(t *testing.T) {
	t.Parallel()
	s := policies(t, &meshconfig.MeshConfig{}, false,
		object(t, model.KindAuthorizationPolicy, "shop/all", `{rules: [{}]}`, nil),
		object(t, model.KindAuthorizationPolicy, "shop/api", `{selector: {matchLabels: {app: api}}, rules: [{}]}`, nil),
		object(t, model.KindAuthorizationPolicy, "shop/web", `{selector: {matchLabels: {app: web}}, rules: [{}]}`, nil),
		object(t, model.KindAuthorizationPolicy, "shop/waypoint", `{targetRefs: [{kind: Gateway, name: g}], rules: [{}]}`, nil),
		object(t, model.KindAuthorizationPolicy, "istio-system/root", `{rules: [{}]}`, nil),
		object(t, model.KindAuthorizationPolicy, "other/other", `{rules: [{}]}`, nil))
	got := httpText(t, s.HTTP().Authz)
	for name, want := range map[string]bool{"all": true, "api": true, "web": false, "waypoint": false, "root": true, "other": false} {
		if strings.Contains(got, "policy["+name+"]") != want {
			t.Errorf("policy %s applies: %v", name, !want)
		}
	}
}

// TestStockMatchers checks that a stock Envoy is sent no deprecated form of metadata matchers.
func TestStockMatchers(t *testing.T) {
	t.Parallel()
	spec := `{rules: [{from: [{source: {requestPrincipals: ["iss/sub"]}}], when: [{key: "request.auth.claims[a]", values: [b]}]}]}`
	for stock, want := range map[bool]string{true: `"sourced_metadata"`, false: `"metadata":{"filter"`} {
		s := policies(t, &meshconfig.MeshConfig{}, stock, object(t, model.KindAuthorizationPolicy, "shop/p", spec, nil))
		if got := httpText(t, s.HTTP().Authz); !strings.Contains(got, want) {
			t.Errorf("stock %v: %s", stock, got)
		}
	}
}

// TestTokens checks the order and structure of token rules, and that keys which cannot be had admit nobody.
func TestTokens(t *testing.T) {
	t.Parallel()
	s := policies(t, &meshconfig.MeshConfig{}, false, object(t, model.KindRequestAuthentication, "shop/r",
		`{jwtRules: [{issuer: z, jwksUri: "https://keys.example/k"}, {issuer: a, jwks: '{"keys":[]}'}]}`, nil))
	got := httpText(t, s.HTTP().Authn)
	if a, z := strings.Index(got, `"issuer":"a"`), strings.Index(got, `"issuer":"z"`); a < 0 || z < a {
		t.Errorf("issuers are out of order: %s", got)
	}
	if !strings.Contains(got, `"allow_missing":{}`) || !strings.Contains(got, `"requires_all"`) || strings.Contains(got, "remote_jwks") {
		t.Error(got)
	}
	if one := httpText(t, policies(t, &meshconfig.MeshConfig{}, false).HTTP().Authn); one != "" {
		t.Errorf("without a policy: %s", one)
	}
}

// TestKeySets checks which key sets are sent on; the verdicts are those of Envoy 1.40.0.
func TestKeySets(t *testing.T) {
	t.Parallel()
	n := strings.Repeat("AQID", 64)
	rsa := `{"kty":"RSA","e":"AQAB","n":"` + n + `"}`
	for set, want := range map[string]bool{
		`{"keys":[` + rsa + `]}`:                                          true,
		`{"keys":[{"kty":"RSA","e":"AQAB"},` + rsa + `]}`:                 true,
		`{"keys":[{"kty":"XYZ"},` + rsa + `]}`:                            true,
		`{"keys":[{"kty":"oct","k":"AAAA"}]}`:                             true,
		`{"keys":[{"kty":"RSA","e":"AQAB","n":"AQAB"}]}`:                  false,
		`{"keys":[{"kty":"RSA","e":"AQAB","n":"++//` + n + `"}]}`:         false,
		`{"keys":[{"kty":"RSA","e":"AQAB","alg":"foo","n":"` + n + `"}]}`: false,
		`{"keys":[{"kty":"RSA","e":"AQAB","n":"` + n + `AQIE"}]}`:         false, // even
		`{"keys":[{"kty":"XYZ"}]}`:                                        false,
		`{"keys":[]}`:                                                     false,
		`{}`:                                                              false,
		`no JSON`:                                                         false,
		rejectAll:                                                         true,
	} {
		if got := usableKeys(set); got != want {
			t.Errorf("%s: %v, want %v", set, got, want)
		}
	}
	bad := object(t, model.KindRequestAuthentication, "shop/r", `{jwtRules: [{issuer: a, jwks: '{"keys":[]}'}]}`, nil)
	if got := httpText(t, policies(t, &meshconfig.MeshConfig{}, true, bad).HTTP().Authn); strings.Contains(got, `\"keys\":[]`) {
		t.Errorf("a stock Envoy is sent keys that it cannot read: %s", got)
	}
}
