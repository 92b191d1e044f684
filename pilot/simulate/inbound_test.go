package simulate_test

import (
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
)

func policy(name, spec string) string {
	return object("AuthorizationPolicy", name, "{selector: {matchLabels: {app: web}}, "+spec+"}")
}

func denied(by string) string {
	return both + " | 10.1.0.2 denied 403 by AuthorizationPolicy/shop/" + by + " | 10.1.0.3 denied 403 by AuthorizationPolicy/shop/" + by
}

func TestMutualTLSModes(t *testing.T) {
	t.Parallel()
	mode := func(m string) string { return object("PeerAuthentication", "default", "{mtls: {mode: "+m+"}}") }
	plain := object("DestinationRule", "plain", "{host: web.shop.svc.cluster.local, trafficPolicy: {tls: {mode: DISABLE}}}")
	mutual := object("DestinationRule", "mutual", "{host: web.shop.svc.cluster.local, trafficPolicy: {tls: {mode: ISTIO_MUTUAL}}}")
	call := offline.Call{To: "http://web/"}
	lost := both + " | 10.1.0.2 reset | 10.1.0.3 reset"
	runAll(t, []meshCase{
		{"permissive, mutual", "", call, both},
		{"permissive, plaintext", plain, call, both},
		{"strict, mutual", mode("STRICT"), call, both},
		{"strict, plaintext", mode("STRICT") + plain, call, lost},
		{"disabled: clients know", mode("DISABLE"), call, both},
		{"disabled, mutual all the same", mode("DISABLE") + mutual, call, lost},
		{
			"a port of its own", object("PeerAuthentication", "web", "{selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}, portLevelMtls: {8080: {mode: PERMISSIVE}}}") + plain, call, both,
		},
		{
			"the other port", object("PeerAuthentication", "web", "{selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}, portLevelMtls: {8080: {mode: PERMISSIVE}}}") + plain,
			offline.Call{To: "tcp://web:9000"},
			"10.1.0.2:9000=50 10.1.0.3:9000=50 | 10.1.0.2 reset | 10.1.0.3 reset",
		},
		{"strict, TCP", mode("STRICT"), offline.Call{To: "tcp://web:9000"}, "10.1.0.2:9000=50 10.1.0.3:9000=50"},
		{"strict, the application's TLS", mode("STRICT"), offline.Call{To: "https://web/"}, "10.1.0.2:8443=50 10.1.0.3:8443=50"},
		{"strict, bytes on a sniffed port", mode("STRICT"), offline.Call{To: "tcp://web:7000"}, "10.1.0.2:7000=50 10.1.0.3:7000=50"},
		{"strict, HTTP/2", mode("STRICT"), offline.Call{To: "http://web/", HTTP2: true}, both},
	})
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	allowAll := policy("everybody", "action: ALLOW, rules: [{}]")
	noAdmin := policy("no-admin", "action: DENY, rules: [{to: [{operation: {paths: [/admin*]}}]}]")
	account := policy("account", "rules: [{from: [{source: {principals: [cluster.local/ns/shop/sa/client]}}]}]")
	namespace := policy("namespace", "rules: [{from: [{source: {namespaces: [shop]}}]}]")
	plain := object("DestinationRule", "plain", "{host: web.shop.svc.cluster.local, trafficPolicy: {tls: {mode: DISABLE}}}")
	visitor := offline.Call{From: "other/visitor", To: "http://web.shop/"}
	call := offline.Call{To: "http://web/"}
	runAll(t, []meshCase{
		{"deny goes before allow", allowAll + noAdmin, offline.Call{To: "http://web/admin/x"}, denied("no-admin")},
		{"allow where nothing denies", allowAll + noAdmin, call, both},
		{"an allow policy denies what it does not name", policy("get", "rules: [{to: [{operation: {methods: [GET]}}]}]"), offline.Call{To: "http://web/", Method: "POST"}, denied("get")},
		{"nothing is allowed", object("AuthorizationPolicy", "nothing", "{selector: {matchLabels: {app: web}}}"), call, denied("nothing")},
		{"the account", account, call, both},
		{"another account", account, visitor, denied("account")},
		{"the namespace", namespace, call, both},
		{"no identity in plaintext", namespace + plain, call, denied("namespace")},
		{"all but a path", policy("not", "rules: [{to: [{operation: {notPaths: [/admin*]}}]}]"), offline.Call{To: "http://web/admin"}, denied("not")},
		{"a header", policy("header", "rules: [{when: [{key: 'request.headers[x-user]', values: [jo]}]}]"), offline.Call{To: "http://web/", Headers: map[string]string{"x-user": "jo"}}, both},
		{"an address", policy("address", "rules: [{from: [{source: {ipBlocks: [10.2.0.0/16]}}]}]"), call, denied("address")},
		{"a path template", policy("template", "action: DENY, rules: [{to: [{operation: {paths: ['/a/{*}/c']}}]}]"), offline.Call{To: "http://web/a/b/c"}, denied("template")},
		{"a path that the template does not match", policy("template", "action: DENY, rules: [{to: [{operation: {paths: ['/a/{*}/c']}}]}]"), offline.Call{To: "http://web/a/b/b/c"}, both},
		{
			"a dry run denies nothing", "---\napiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: dry, namespace: shop, annotations: {istio.io/dry-run: 'true'}}\nspec: {action: DENY, rules: [{}]}\n",
			call, both,
		},
		{
			"TCP by port", policy("port", "action: DENY, rules: [{to: [{operation: {ports: ['9000']}}]}]"),
			offline.Call{To: "tcp://web:9000"},
			"10.1.0.2:9000=50 10.1.0.3:9000=50 | 10.1.0.2 denied by AuthorizationPolicy/shop/port | 10.1.0.3 denied by AuthorizationPolicy/shop/port",
		},
		{"of another workload", object("AuthorizationPolicy", "client", "{selector: {matchLabels: {app: client}}, action: DENY, rules: [{}]}"), call, both},
	})
}

func TestTokens(t *testing.T) {
	t.Parallel()
	const keys = `{"keys":[{"kty":"oct","k":"AAEC","alg":"HS256","kid":"1"}]}`
	authentication := object("RequestAuthentication", "tokens", "{selector: {matchLabels: {app: web}}, jwtRules: [{issuer: good, jwks: '"+keys+"'}]}")
	required := authentication + policy("required", "rules: [{from: [{source: {requestPrincipals: ['good/*']}}]}]")
	claim := authentication + policy("claim", "rules: [{when: [{key: 'request.auth.claims[groups]', values: [admin]}]}]")
	call := func(claims map[string]any) offline.Call { return offline.Call{To: "http://web/", Claims: claims} }
	const unauthorized = both + " | 10.1.0.2 denied 401 by RequestAuthentication/shop/tokens | 10.1.0.3 denied 401 by RequestAuthentication/shop/tokens"
	runAll(t, []meshCase{
		{"no token is asked for", authentication, call(nil), both},
		{"a token of somebody else", authentication, call(map[string]any{"iss": "bad", "sub": "jo"}), unauthorized},
		{"no token where one is required", required, call(nil), denied("required")},
		{"the token that is required", required, call(map[string]any{"iss": "good", "sub": "jo"}), both},
		{"a claim", claim, call(map[string]any{"iss": "good", "sub": "jo", "groups": []any{"user", "admin"}}), both},
		{"a claim without the value", claim, call(map[string]any{"iss": "good", "sub": "jo", "groups": []any{"user"}}), denied("claim")},
	})
}

// The same holds for Envoys without Istio's extensions. They take part in mutual TLS where they say so, so these calls
// are in plaintext.
func TestStockProfile(t *testing.T) {
	t.Parallel()
	runAll(t, []meshCase{
		{"routing", http("{match: [{uri: {prefix: /a}}], route: " + to("v1") + "}, {route: " + to("v2") + "}"), offline.Call{To: "http://web/a", Stock: true}, v1},
		{"authorization", policy("no-admin", "action: DENY, rules: [{to: [{operation: {paths: [/admin*]}}]}]"), offline.Call{To: "http://web/admin/x", Stock: true}, denied("no-admin")},
		{"TCP", "", offline.Call{To: "tcp://web:9000", Stock: true}, "10.1.0.2:9000=50 10.1.0.3:9000=50"},
	})
}
