package traffic

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// through is the service of a host that a workload with a sidecar serves.
func through(host, workload string) string {
	return service(host, fmt.Sprintf("{address: '${%s}', ports: {http: ${http}}}", workload))
}

// policy is an AuthorizationPolicy of a workload; spec is YAML, indented by two.
func policy(name, workload, spec string) string {
	return security("AuthorizationPolicy", name, "  selector: {matchLabels: {app: "+workload+"}}\n"+spec)
}

// denied is what Envoy says when a policy denies a request.
const denied = "RBAC: access denied"

// denials are scenarios about requests that a policy denies for what they ask.
func denials() []scenario {
	return []scenario{
		{
			name: "deny-path",
			objects: through("${host}", "guard") + policy("${name}", "guard", `
  action: DENY
  rules: [{to: [{operation: {hosts: ['${host}'], paths: ["/admin*", "*.secret"]}}]}]`),
			exchanges: []exchange{
				{path: "/public", backend: "guard"},
				{path: "/admin/x", status: 403, body: denied},
				{path: "/public/../admin/x", status: 403, body: denied},
				{path: "/x.secret?q=1", status: 403, body: denied},
				{path: "/x.secrets", backend: "guard"},
			},
		},
		{
			name: "deny-but",
			objects: through("${host}", "guard") + policy("${name}", "guard", `
  action: DENY
  rules: [{to: [{operation: {hosts: ['${host}'], notPaths: ["/open", "/open/*"], notMethods: [HEAD]}}]}]`),
			exchanges: []exchange{
				{path: "/open", backend: "guard"},
				{path: "/open/x", backend: "guard"},
				{path: "/closed", status: 403, body: denied},
				{path: "/closed", method: http.MethodHead},
			},
		},
	}
}

// conditions are scenarios about requests that a policy denies for what they say or where they come from.
func conditions() []scenario {
	return []scenario{
		{
			name: "deny-header",
			objects: through("${host}", "guard") + policy("${name}", "guard", `
  action: DENY
  rules:
  - {to: [{operation: {hosts: ['${host}']}}], when: [{key: "request.headers[x-role]", values: ["evil*", bad]}]}
  - {to: [{operation: {hosts: ['${host}'], paths: [/keyed]}}], when: [{key: "request.headers[x-key]", notValues: [open]}]}`),
			exchanges: []exchange{
				{backend: "guard"},
				{headers: headers{"x-role": "good"}, backend: "guard"},
				{headers: headers{"x-role": "evil-one"}, status: 403},
				{headers: headers{"x-role": "bad"}, status: 403},
				{path: "/keyed", status: 403},
				{path: "/keyed", headers: headers{"x-key": "open"}, backend: "guard"},
			},
		},
		{
			name: "deny-address",
			objects: through("${host}", "guard") + policy("${name}", "guard", `
  action: DENY
  rules:
  - {to: [{operation: {hosts: ['${host}'], paths: [/direct]}}], from: [{source: {ipBlocks: [127.0.0.0/8]}}]}
  - {to: [{operation: {hosts: ['${host}'], paths: [/other]}}], from: [{source: {ipBlocks: [10.0.0.0/8]}}]}
  - {to: [{operation: {hosts: ['${host}'], paths: [/remote]}}], from: [{source: {remoteIpBlocks: [10.9.0.0/16]}}]}
  - {to: [{operation: {hosts: ['${host}'], paths: [/not]}}], from: [{source: {notRemoteIpBlocks: [10.9.0.0/16]}}]}`),
			exchanges: []exchange{
				{path: "/direct", status: 403},
				{path: "/other", backend: "guard"},
				{path: "/remote", backend: "guard"},
				{path: "/remote", headers: headers{"x-forwarded-for": "10.9.1.2"}, status: 403},
				{path: "/remote", headers: headers{"x-forwarded-for": "10.8.1.2"}, backend: "guard"},
				{path: "/not", status: 403},
				{path: "/not", headers: headers{"x-forwarded-for": "10.9.1.2"}, backend: "guard"},
			},
		},
	}
}

// servedTCP is an ingress listener of the workload limited for one of the scenario's ports, and the server behind it.
func servedTCP(port, server string) string {
	return fmt.Sprintf("  - port: {number: ${%[1]s}, protocol: TCP, name: %[1]s-${name}}\n    bind: '${limited}'\n    captureMode: NONE\n"+
		"    defaultEndpoint: 127.0.0.1:${%[2]s}\n", port, server)
}

// tcpPolicies are scenarios about connections that a policy denies. They need a workload without policies about requests,
// since a rule to DENY with nothing but conditions on requests denies every connection.
func tcpPolicies() []scenario {
	entry := func(port string) string {
		return networking("ServiceEntry", "${name}-"+port, fmt.Sprintf("  hosts: ['%[1]s.${host}']\n  resolution: STATIC\n"+
			"  ports: [{number: ${%[1]s}, name: tcp, protocol: TCP}]\n  endpoints: [{address: '${limited}'}]", port))
	}
	return []scenario{{
		name: "deny-tcp", connections: true, ports: []string{"open", "closed"},
		start: func(t *testing.T, r *run) {
			r.vars["server"] = strconv.Itoa(harness.NewTCPEcho(t, "", "").Port())
		},
		listeners: egress(caller, "TCP", "open", "open.deny-tcp.example") + egress(caller, "TCP", "closed", "closed.deny-tcp.example"),
		ingress:   servedTCP("open", "server") + servedTCP("closed", "server"),
		objects: entry("open") + entry("closed") + policy("${name}", "limited", `
  action: DENY
  rules: [{from: [{source: {ipBlocks: [127.0.0.1]}}], to: [{operation: {ports: ["${closed}"]}}]}]`),
		then: func(t *testing.T, r *run) {
			// Envoy decides when the client says something.
			for port, want := range map[string]string{"open": "hello", "closed": ""} {
				if got := firstLine(t, net.JoinHostPort("127.0.0.1", r.vars[port]), "hello\n"); got != want {
					t.Errorf("%s: %q, want %q", port, got, want)
				}
			}
		},
	}}
}

// policies are scenarios about requests that policies allow, or only look at.
func policies() []scenario {
	return []scenario{
		{
			name: "dry-run",
			objects: through("${host}", "guard") + strings.Replace(policy("${name}", "guard", `
  action: DENY
  rules: [{to: [{operation: {hosts: ['${host}'], paths: [/tried]}}]}]`), "namespace: demo}", "namespace: demo, annotations: {istio.io/dry-run: 'true'}}", 1) +
				policy("${name}-audit", "guard", `
  action: AUDIT
  rules: [{to: [{operation: {hosts: ['${host}']}}]}]`),
			exchanges: []exchange{{path: "/tried", backend: "guard"}, {path: "/tried", backend: "guard"}},
			then: func(t *testing.T, r *run) {
				harness.Eventually(t, patience, func(ctx context.Context) error {
					stats, err := r.mesh.envoys["guard"].Stats(ctx, `istio_dry_run_deny_.*shadow_denied$`)
					for _, n := range stats {
						if n == 2 {
							return nil
						}
					}
					return fmt.Errorf("denials that would have been: %v, %w", stats, err)
				})
			},
		},
		{
			name: "allow",
			objects: through("${host}", "gate") + policy("${name}", "gate", `
  rules:
  - {to: [{operation: {hosts: ['${host}'], methods: [GET], paths: ["/items/{*}/parts", "/files/{**}", /exact]}}]}
  - {to: [{operation: {hosts: ['${host}'], methods: [POST, PUT], paths: ["/write*"], notPaths: [/write/no]}}]}`),
			exchanges: []exchange{
				{path: "/items/7/parts", backend: "gate"},
				{path: "/items/7/8/parts", status: 403, body: denied},
				{path: "/items/7", status: 403},
				{path: "/files/a/b/c", backend: "gate"},
				{path: "/exact", backend: "gate"},
				{path: "/exact", method: http.MethodPost, status: 403},
				{path: "/write/x", method: http.MethodPost, backend: "gate"},
				{path: "/write/no", method: http.MethodPut, status: 403},
				{path: "/write/x", status: 403},
			},
		},
		{
			name: "strict",
			objects: through("${host}", "strict") + security("PeerAuthentication", "${name}", `
  selector: {matchLabels: {app: strict}}
  mtls: {mode: STRICT}`),
			exchanges: []exchange{{status: 503}},
			then: func(t *testing.T, r *run) {
				if n := r.mesh.apps["strict"].Requests(); n != 0 {
					t.Errorf("%d requests reached the application", n)
				}
				r.write(t, through("${host}", "strict")+security("PeerAuthentication", "${name}", `
  selector: {matchLabels: {app: strict}}
  mtls: {mode: PERMISSIVE}`))
				r.eventually(t, 3, exchange{backend: "strict"})
			},
		},
	}
}
