package grpc

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// next waits for what a server says next about its listener.
func next(t *testing.T, modes <-chan mode) mode {
	t.Helper()
	select {
	case m := <-modes:
		return m
	case <-time.After(patience):
		t.Fatal("the server says nothing about its listener")
		return mode{}
	}
}

func TestServerGetsItsListener(t *testing.T) {
	t.Parallel()
	m := newMesh(t, map[string]string{"slice.yaml": ""})
	m.write(t, "slice.yaml", slice("echo", m.port, 1))
	if got := next(t, m.serveXDS(t, version(1, nil), m.port)); !got.serving || got.err != nil {
		t.Fatalf("the server does not serve: %v", got.err)
	}
	c := m.dialer(t, client(nil)).dial(t, m.target(host))
	c.eventually(t, "echo-v1")
}

// TestServerOfNoService shows that a port which no service sends traffic to is not served, with a clear error.
func TestServerOfNoService(t *testing.T) {
	t.Parallel()
	m := newMesh(t, nil)
	modes := m.serveXDS(t, version(1, nil), 0)
	got := next(t, modes)
	t.Log(got.err)
	if got.serving || got.err == nil || !strings.Contains(got.err.Error(), "xds.istio.io/grpc/lds/inbound/"+versionIP(1)) {
		t.Errorf("serving %v, error %v", got.serving, got.err)
	}
}

func TestMutualTLS(t *testing.T) {
	t.Parallel()
	ca := harness.NewAuthority(t)
	m := newMesh(t, map[string]string{"rule.yaml": rule("tls: {mode: ISTIO_MUTUAL}"), "peers.yaml": peers("STRICT")})
	m.write(t, "slice.yaml", slice("echo", m.port, 1))
	if got := next(t, m.serveXDS(t, version(1, issue(t, ca, "echo")), m.port)); !got.serving {
		t.Fatalf("the server does not serve: %v", got.err)
	}
	c := m.dialer(t, client(issue(t, ca, "client"))).dial(t, m.target(host))
	c.eventually(t, "echo-v1")

	stranger := m.dialer(t, client(issue(t, harness.NewAuthority(t), "client"))).dial(t, m.target(host))
	if err := stranger.failure(t); status.Code(err) != codes.Unavailable {
		t.Errorf("a client of another authority: %v", err)
	}
	m.write(t, "rule.yaml", rule(""))
	plain := m.dialer(t, client(nil)).dial(t, m.target(host))
	if err := plain.failure(t); status.Code(err) != codes.Unavailable {
		t.Errorf("a client without TLS: %v", err)
	}
}

// TestWrongServer shows that a client does not talk to a server that runs as another account.
func TestWrongServer(t *testing.T) {
	t.Parallel()
	ca := harness.NewAuthority(t)
	m := newMesh(t, map[string]string{"rule.yaml": rule("tls: {mode: ISTIO_MUTUAL}"), "peers.yaml": peers("STRICT")})
	m.write(t, "slice.yaml", slice("echo", m.port, 1))
	if got := next(t, m.serveXDS(t, version(1, issue(t, ca, "thief")), m.port)); !got.serving {
		t.Fatalf("the server does not serve: %v", got.err)
	}
	c := m.dialer(t, client(issue(t, ca, "client"))).dial(t, m.target(host))
	err := c.failure(t)
	t.Log(err)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "SAN") {
		t.Errorf("a server of another account: %v", err)
	}
}

// TestServerModeFollowsLive shows that a server turns to mutual TLS and back as the policy says. Connections that it
// has are of the old policy, so that each mode is tried with a client of its own.
func TestServerModeFollowsLive(t *testing.T) {
	t.Parallel()
	ca := harness.NewAuthority(t)
	m := newMesh(t, map[string]string{"peers.yaml": peers("DISABLE")})
	m.write(t, "base.yaml", strings.ReplaceAll(base(m.port), "labels: {app: echo,", "labels: {security.istio.io/tlsMode: istio, app: echo,"))
	m.write(t, "slice.yaml", slice("echo", m.port, 1))
	next(t, m.serveXDS(t, version(1, issue(t, ca, "echo")), m.port))
	plain := m.dialer(t, client(nil)).dial(t, m.target(host))
	plain.eventually(t, "echo-v1")
	m.write(t, "peers.yaml", peers("PERMISSIVE")) // the workload has certificates
	m.write(t, "rule.yaml", rule("tls: {mode: ISTIO_MUTUAL}"))
	secure := m.dialer(t, client(issue(t, ca, "client"))).dial(t, m.target(host))
	secure.eventually(t, "echo-v1")
}

func TestAuthorization(t *testing.T) {
	t.Parallel()
	ca := harness.NewAuthority(t)
	m := newMesh(t, map[string]string{
		"rule.yaml": rule("tls: {mode: ISTIO_MUTUAL}"), "peers.yaml": peers("STRICT"),
		"allow.yaml": authorization("ALLOW", fmt.Sprintf(`{from: [{source: {principals: ["cluster.local/ns/%s/sa/client"]}}]}`, namespace)),
	})
	m.write(t, "slice.yaml", slice("echo", m.port, 1))
	next(t, m.serveXDS(t, version(1, issue(t, ca, "echo")), m.port))
	c := m.dialer(t, client(issue(t, ca, "client"))).dial(t, m.target(host))
	c.eventually(t, "echo-v1")
	other := m.dialer(t, client(issue(t, ca, "other"))).dial(t, m.target(host))
	if err := other.failure(t); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a client that is not allowed: %v", err)
	}
	m.write(t, "allow.yaml", authorization("DENY", `{to: [{operation: {paths: ["/{*}/UnaryCall", "/{**}/None"]}}], `+
		`when: [{key: "request.headers[x-deny]", values: ["yes"]}]}`))
	harness.Eventually(t, patience, func(ctx context.Context) error {
		if _, err := other.call(ctx); err != nil {
			return err
		}
		if _, err := other.call(ctx, "x-deny", "yes"); status.Code(err) != codes.PermissionDenied {
			return fmt.Errorf("not denied: %w", err)
		}
		return nil
	})
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-deny", "yes")
	if _, err := other.EmptyCall(ctx, &grpc_testing.Empty{}); err != nil {
		t.Errorf("another method: %v", err)
	}
}

// TestPoliciesThatGRPCDoesNotKnow shows that a policy which gRPC cannot express does not take the listener away, and
// never opens what is closed.
func TestPoliciesThatGRPCDoesNotKnow(t *testing.T) {
	t.Parallel()
	m := newMesh(t, map[string]string{
		"jwt.yaml": "apiVersion: security.istio.io/v1\nkind: RequestAuthentication\nmetadata: {name: jwt, namespace: demo}\n" +
			"spec: {jwtRules: [{issuer: i, jwks: '{\"keys\":[]}'}]}\n",
		"audit.yaml": strings.Replace(authorization("AUDIT", "{}"), "name: echo", "name: audit", 1),
		"allow.yaml": authorization("ALLOW", `{from: [{source: {requestPrincipals: ["*"]}}]}, `+
			`{when: [{key: "request.headers[grpc-encoding]", values: ["*"]}]}, {when: [{key: "request.headers[x-ok]", values: ["yes"]}]}`),
	})
	m.write(t, "slice.yaml", slice("echo", m.port, 1))
	if got := next(t, m.serveXDS(t, version(1, nil), m.port)); !got.serving {
		t.Fatalf("the server does not serve: %v", got.err)
	}
	c := m.dialer(t, client(nil)).dial(t, m.target(host))
	c.eventually(t, "echo-v1", "x-ok", "yes")
	if err := c.failure(t); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a call without what the policy asks for: %v", err)
	}
}
