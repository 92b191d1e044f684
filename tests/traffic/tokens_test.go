package traffic

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// tokens is the scenario about requests with tokens. Its hosts ask for different things.
func tokens() []scenario {
	var issuer, other *harness.Signer
	return []scenario{{
		name: "tokens",
		start: func(t *testing.T, r *run) {
			issuer, other = harness.NewSigner(t, "first"), harness.NewSigner(t, "first")
			r.vars["keys"] = issuer.Keys()
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
			claims := func(more map[string]any) map[string]any {
				all := map[string]any{"iss": "me", "aud": "shop", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
				maps.Copy(all, more)
				return all
			}
			bearer := func(s *harness.Signer, more map[string]any) headers {
				return headers{"authorization": "Bearer " + s.Token(t, claims(more))}
			}
			good := bearer(issuer, nil)
			bob := issuer.Token(t, claims(map[string]any{"iss": "you", "sub": "bob"}))
			const required, claimed = "required.tokens.example", "claims.tokens.example"
			for i, x := range []exchange{
				{backend: "gate"},
				{headers: good, backend: "gate", seen: headers{"x-subject": "ann", "x-role": "", "authorization": good["authorization"]}},
				{headers: headers{"x-subject": "eve", "x-role": "boss"}, backend: "gate", seen: headers{"x-subject": "", "x-role": ""}},
				{headers: bearer(issuer, map[string]any{"realm": map[string]any{"role": "clerk"}}), seen: headers{"x-role": "clerk"}},
				{headers: bearer(issuer, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), status: 401, body: "Jwt is expired"},
				{headers: bearer(issuer, map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}), status: 401},
				{headers: bearer(issuer, map[string]any{"aud": "market"}), status: 403, body: "Audiences in Jwt are not allowed"},
				{headers: bearer(issuer, map[string]any{"iss": "stranger"}), status: 401, body: "Jwt issuer is not configured"},
				{headers: bearer(other, nil), status: 401, body: "Jwt verification fails"},
				{headers: headers{"authorization": "Bearer nonsense"}, status: 401},
				{headers: headers{"x-token": "Token " + bob}, backend: "gate", seen: headers{"x-token": ""}},
				{path: "/?token=" + bob, backend: "gate"},
				{host: required, status: 403, body: "RBAC: access denied"},
				{host: required, headers: good, backend: "gate"},
				{host: required, path: "/?token=" + bob, backend: "gate"},
				{host: required, path: "/?token=" + issuer.Token(t, claims(map[string]any{"iss": "you"})), status: 403},
				{host: claimed, path: "/groups", headers: good, status: 403},
				{host: claimed, path: "/groups", headers: bearer(issuer, map[string]any{"groups": []string{"staff", "admins"}}), backend: "gate"},
				{host: claimed, path: "/groups", headers: bearer(issuer, map[string]any{"groups": "admins"}), backend: "gate"},
				{host: claimed, path: "/groups", headers: bearer(issuer, map[string]any{"groups": []string{"staff"}}), status: 403},
				{host: claimed, path: "/nested", headers: bearer(issuer, map[string]any{"realm": map[string]any{"role": "bossy"}}), backend: "gate"},
				{host: claimed, path: "/nested", headers: bearer(issuer, map[string]any{"realm": map[string]any{"role": "clerk"}}), status: 403},
				{host: claimed, path: "/audience", headers: good, backend: "gate"},
				{host: claimed, path: "/audience", headers: bearer(issuer, map[string]any{"sub": "eve"}), status: 403},
				{host: claimed, path: "/audience", status: 403},
				{host: claimed, path: "/scope", headers: bearer(issuer, map[string]any{"scope": "read write"}), backend: "gate"},
			} {
				if err := r.check(t.Context(), x); err != nil {
					t.Errorf("request %d: %v", i, err)
				}
			}
			payload(t, r, good)
		},
	}}
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
	var claims map[string]any
	if err := json.Unmarshal(text, &claims); err != nil || claims["sub"] != "ann" || claims["iss"] != "me" {
		t.Errorf("claims seen: %s, %v", text, err)
	}
}
