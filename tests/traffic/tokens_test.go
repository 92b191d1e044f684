package traffic

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// claims are those of a token that differ from a good one's.
type claims map[string]any

// issued returns a token of a signer.
func issued(t *testing.T, s *harness.Signer, differ claims) string {
	t.Helper()
	all := claims{"iss": "me", "aud": "shop", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, differ)
	return s.Token(t, all)
}

// bearing returns the header with a token of a signer.
func bearing(t *testing.T, s *harness.Signer, differ claims) headers {
	t.Helper()
	return headers{"authorization": "Bearer " + issued(t, s, differ)}
}

// tokens is the scenario about requests with tokens. Its hosts ask for different things.
func tokens() []scenario {
	var signer *harness.Signer
	return []scenario{{
		name: "tokens",
		start: func(t *testing.T, r *run) {
			signer = harness.NewSigner(t, "first")
			r.vars["keys"] = signer.Keys()
		},
		objects: through("${host}", "gate") + through("required.${host}", "gate") + through("claims.${host}", "gate") +
			security("RequestAuthentication", "${name}", `
  selector: {matchLabels: {app: gate}}
  jwtRules:
  - issuer: me
    audiences: [shop]
    jwks: '${keys}'
    forwardOriginalToken: true
    outputPayloadToHeader: x-payload
    outputClaimToHeaders: [{header: x-subject, claim: sub}, {header: x-role, claim: realm.role}]
  - {issuer: you, jwks: '${keys}', fromHeaders: [{name: x-token, prefix: "Token "}], fromParams: [token]}`) +
			policy("${name}-any", "gate", "  rules: [{to: [{operation: {hosts: ['${host}']}}]}]") +
			policy("${name}-required", "gate", "  rules: [{to: [{operation: {hosts: ['required.${host}']}}], from: [{source: {requestPrincipals: ['me/*', 'you/bob']}}]}]") +
			policy("${name}-claims", "gate", `
  rules:
  - {to: [{operation: {hosts: ['claims.${host}'], paths: [/groups]}}], when: [{key: "request.auth.claims[groups]", values: [admins]}]}
  - {to: [{operation: {hosts: ['claims.${host}'], paths: [/nested]}}], when: [{key: "request.auth.claims[realm][role]", values: ["boss*"]}]}
  - {to: [{operation: {hosts: ['claims.${host}'], paths: [/audience]}}], when: [{key: request.auth.audiences, values: [shop]}, {key: request.auth.principal, notValues: [me/eve]}]}
  - {to: [{operation: {hosts: ['claims.${host}'], paths: [/scope]}}], when: [{key: "request.auth.claims[scope]", values: [write]}]}`),
		then: func(t *testing.T, r *run) {
			for i, x := range slices.Concat(good(t, signer), bad(t, signer), required(t, signer), claimed(t, signer)) {
				if err := r.check(t.Context(), x); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
			payload(t, r, bearing(t, signer, nil))
		},
	}}
}

// good are requests with tokens that are good, or none, and what the application sees of them.
func good(t *testing.T, s *harness.Signer) []exchange {
	ann := bearing(t, s, nil)
	bob := issued(t, s, claims{"iss": "you", "sub": "bob"})
	return []exchange{
		{backend: "gate"},
		{headers: ann, backend: "gate", seen: headers{"x-subject": "ann", "x-role": "", "authorization": ann["authorization"]}},
		{headers: headers{"x-subject": "eve", "x-role": "boss"}, backend: "gate", seen: headers{"x-subject": "", "x-role": ""}},
		{headers: bearing(t, s, claims{"realm": claims{"role": "clerk"}}), seen: headers{"x-role": "clerk"}},
		{headers: headers{"x-token": "Token " + bob}, backend: "gate", seen: headers{"x-token": ""}},
		{path: "/?token=" + bob, backend: "gate"},
	}
}

// bad are requests with tokens that nobody may accept.
func bad(t *testing.T, s *harness.Signer) []exchange {
	hour := func(n int) int64 { return time.Now().Add(time.Duration(n) * time.Hour).Unix() }
	const beyond = "whether a token is valid"
	out := []exchange{
		{headers: bearing(t, s, claims{"exp": hour(-1)}), status: 401, body: "Jwt is expired"},
		{headers: bearing(t, s, claims{"nbf": hour(1)}), status: 401, body: "Jwt not yet valid"},
		// Envoy says 403 where a token is good, but for somebody else.
		{headers: bearing(t, s, claims{"aud": "market"}), status: 403, body: "Audiences in Jwt are not allowed"},
		{headers: bearing(t, s, claims{"iss": "stranger"}), status: 401, body: "Jwt issuer is not configured"},
		{headers: bearing(t, harness.NewSigner(t, "first"), nil), status: 401, body: "Jwt verification fails"},
		{headers: headers{"authorization": "Bearer nonsense"}, status: 401},
	}
	for i := range out {
		out[i].beyond = beyond
	}
	return out
}

// required are requests to the host that wants a token.
func required(t *testing.T, s *harness.Signer) []exchange {
	const host = "required.tokens.example"
	return []exchange{
		{host: host, status: 403, body: denied},
		{host: host, headers: bearing(t, s, nil), backend: "gate"},
		{host: host, path: "/?token=" + issued(t, s, claims{"iss": "you", "sub": "bob"}), backend: "gate"},
		{host: host, path: "/?token=" + issued(t, s, claims{"iss": "you"}), status: 403, body: denied},
	}
}

// claimed are requests to the host that looks at what a token says.
func claimed(t *testing.T, s *harness.Signer) []exchange {
	const host = "claims.tokens.example"
	asked := func(path string, differ claims, status int) exchange {
		return exchange{host: host, path: path, headers: bearing(t, s, differ), status: status}
	}
	return []exchange{
		asked("/groups", nil, 403),
		asked("/groups", claims{"groups": []string{"staff", "admins"}}, 200),
		asked("/groups", claims{"groups": "admins"}, 200),
		asked("/groups", claims{"groups": []string{"staff"}}, 403),
		asked("/nested", claims{"realm": claims{"role": "bossy"}}, 200),
		asked("/nested", claims{"realm": claims{"role": "clerk"}}, 403),
		asked("/audience", nil, 200),
		asked("/audience", claims{"sub": "eve"}, 403),
		{host: host, path: "/audience", status: 403, body: denied},
		asked("/scope", claims{"scope": "read write"}, 200),
		asked("/scope", claims{"scope": "read"}, 403),
	}
}

// payload fails the test unless the application sees the claims of a token.
func payload(t *testing.T, r *run, token headers) {
	t.Helper()
	reply, err := r.do(t.Context(), exchange{headers: token})
	if err != nil {
		t.Fatal(err)
	}
	text, err := base64.RawURLEncoding.DecodeString(reply.Echo.Headers.Get("x-payload"))
	if err != nil {
		t.Fatal(err)
	}
	var seen claims
	if err := json.Unmarshal(text, &seen); err != nil || seen["sub"] != "ann" || seen["iss"] != "me" {
		t.Errorf("claims seen: %s, %v", text, err)
	}
}
