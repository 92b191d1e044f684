package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// everyFilter are manifests that make every kind of chain, match and filter that a sidecar's listeners can have.
const everyFilter = `
apiVersion: v1
kind: Service
metadata: {name: api, namespace: shop}
spec: {selector: {app: api}, clusterIP: 10.96.0.11, ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 90, targetPort: 9090}, {name: auto, port: 100, targetPort: 7070}, {name: grpc-web, port: 110, targetPort: 7080}, {name: mongo, port: 120, targetPort: 7090}]}
---
apiVersion: v1
kind: Service
metadata: {name: ring, namespace: shop}
spec: {selector: {app: ring}, clusterIP: None, ports: [{name: tcp, port: 7946}, {name: auto, port: 6000}]}
---
apiVersion: v1
kind: Service
metadata: {name: authz, namespace: shop}
spec: {selector: {app: authz}, clusterIP: 10.96.0.12, ports: [{name: grpc, port: 9000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: ring-1, namespace: shop, labels: {kubernetes.io/service-name: ring}}
addressType: IPv4
endpoints: [{addresses: [10.0.0.5], conditions: {ready: true}}, {addresses: [10.0.0.6], conditions: {ready: true}}]
ports: [{name: tcp, port: 7946}, {name: auto, port: 6000}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: range, namespace: shop}
spec: {hosts: [range.example], addresses: [172.16.0.0/16, 172.20.0.1], resolution: NONE, ports: [{number: 7071, name: tcp, protocol: TCP}, {number: 7072, name: tls, protocol: TLS}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: names, namespace: shop}
spec: {hosts: [a.example, b.example], resolution: DNS, ports: [{number: 7072, name: tls, protocol: TLS}, {number: 7071, name: http, protocol: HTTP}, {number: 7073, name: http, protocol: HTTP}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: api, namespace: shop}
spec:
  hosts: [api, a.example]
  tcp:
  - {match: [{port: 90, destinationSubnets: [10.96.0.11/32, 10.97.0.0/16]}], route: [{destination: {host: api, port: {number: 90}}}]}
  - {match: [{port: 90}], route: [{destination: {host: api, port: {number: 90}}, weight: 50}, {destination: {host: authz}, weight: 50}]}
  tls:
  - {match: [{port: 7072, sniHosts: [a.example, "*.a.example"]}], route: [{destination: {host: b.example, port: {number: 7072}}}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: api, namespace: shop}
spec: {host: api, trafficPolicy: {connectionPool: {tcp: {idleTimeout: 33s, maxConnectionDuration: 60s}}, loadBalancer: {consistentHash: {useSourceIp: true}}}}
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: api, namespace: shop}
spec: {selector: {matchLabels: {app: api}}, mtls: {mode: PERMISSIVE}, portLevelMtls: {"9090": {mode: STRICT}, "7080": {mode: DISABLE}, "9999": {mode: DISABLE}}}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: allow, namespace: shop}
spec:
  rules:
  - from:
    - source: {principals: ["cluster.local/ns/a/sa/b", "*/sa/c", "*"], notPrincipals: ["x/*"], namespaces: ["n-*"], ipBlocks: [10.0.0.0/8], remoteIpBlocks: [192.0.2.1], requestPrincipals: ["iss/*"], serviceAccounts: [shop/web]}
    to: [{operation: {hosts: ["*.example"], methods: [GET], paths: ["/a*", "*.b", "/v/{*}/x", "/w/{**}"], ports: ["80"]}}]
    when: [{key: "request.headers[x-a]", values: ["*"]}, {key: "request.auth.claims[a][b]", values: [c]}, {key: connection.sni, values: ["*.d"]}, {key: destination.ip, values: [10.0.0.1]}]
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: deny, namespace: shop, annotations: {istio.io/dry-run: "true"}}
spec: {action: DENY, rules: [{to: [{operation: {paths: [/never]}}]}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: audit, namespace: shop}
spec: {action: AUDIT, rules: [{}]}
---
apiVersion: security.istio.io/v1
kind: AuthorizationPolicy
metadata: {name: ask, namespace: shop}
spec: {action: CUSTOM, provider: {name: authz}, rules: [{to: [{operation: {paths: [/ask]}}]}]}
---
apiVersion: security.istio.io/v1
kind: RequestAuthentication
metadata: {name: tokens, namespace: shop}
spec: {jwtRules: [{issuer: a, jwksUri: "https://keys.example/k", fromHeaders: [{name: x-t, prefix: "T "}], outputClaimToHeaders: [{header: x-s, claim: sub}]}, {issuer: b, jwksUri: "https://keys.example/k", fromParams: [t], fromCookies: [c]}]}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: all, namespace: shop}
spec:
  tracing: [{providers: [{name: zip}], randomSamplingPercentage: 12.5, customTags: {a: {literal: {value: x}}, b: {header: {name: h}}, c: {environment: {name: HOME}}, d: {formatter: {value: "%PROTOCOL%"}}}}]
  accessLogging: [{providers: [{name: envoy}, {name: json}, {name: als}, {name: tcpals}, {name: otel}], filter: {expression: "response.code >= 400"}}]
`

// everyProvider is the mesh configuration that everyFilter refers to, with ports for the listeners that really open.
func everyProvider(outbound, inbound uint64) string {
	return fmt.Sprintf(`
proxyListenPort: %d
proxyInboundListenPort: %d
# clusters without TLS: Envoy asks for listeners only when no cluster waits for a certificate any more
enableAutoMtls: false
accessLogFile: /dev/null
defaultProviders: {metrics: [prometheus]}
extensionProviders:
- {name: zip, zipkin: {service: authz.shop.svc.cluster.local, port: 9000}}
- {name: json, envoyFileAccessLog: {path: /dev/null, logFormat: {labels: {m: "%%REQ(:METHOD)%%"}}}}
- {name: als, envoyHttpAls: {service: authz.shop.svc.cluster.local, port: 9000}}
- {name: tcpals, envoyTcpAls: {service: authz.shop.svc.cluster.local, port: 9000}}
- {name: otel, envoyOtelAls: {service: authz.shop.svc.cluster.local, port: 9000, logFormat: {labels: {a: "%%DURATION%%"}}}}
- {name: authz, envoyExtAuthzGrpc: {service: authz.shop.svc.cluster.local, port: 9000, includeRequestBodyInCheck: {maxRequestBytes: 1024}}}
`, outbound, inbound)
}

// agentBootstrap is the cluster of an agent that hands out certificates; nobody answers there.
const agentBootstrap = `
static_resources:
  clusters:
  - name: sds-grpc
    type: STATIC
    connect_timeout: 1s
    load_assignment: {cluster_name: sds-grpc, endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: /nonexistent.sock}}}}]}]}
`

// startConfigured starts a control plane on a directory, with a mesh configuration in YAML.
func startConfigured(t *testing.T, dir, config string) *server.Server {
	t.Helper()
	src, err := file.New(file.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	mesh, err := meshconfig.Parse([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	settings := model.DefaultSettings()
	settings.RequestsPerSecond = 10_000
	s, err := server.Start(context.Background(), server.Options{
		Log:      slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
		Settings: settings, Mesh: mesh, Sources: []source.Source{src},
		GRPCAddr: "127.0.0.1:0", HTTPAddr: "127.0.0.1:0", ShutdownDuration: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func freePort(t *testing.T) uint64 {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A stock Envoy accepts all that a sidecar's listeners can hold, and none of it is deprecated.
func TestStockEnvoyTakesEveryListener(t *testing.T) {
	t.Parallel()
	harness.NeedTool(t, harness.EnvoyTool)
	dir := t.TempDir()
	write(t, dir, "all.yaml", everyFilter)
	p := startConfigured(t, dir, everyProvider(freePort(t), freePort(t)))
	e := harness.NewEnvoy(t, harness.EnvoyOptions{
		NodeID: "sidecar~10.0.0.9~api-1.shop~shop.svc.cluster.local",
		Metadata: map[string]any{
			"NAMESPACE": "shop", "CLUSTER_ID": "Kubernetes",
			"LABELS": map[string]any{"app": "api", "security.istio.io/tlsMode": "istio"},
		},
		XDSAddress: p.GRPC.String(), Bootstrap: agentBootstrap, ServingOnly: true,
	})
	harness.Eventually(t, 20*time.Second, func(ctx context.Context) error {
		n, err := e.Stat(ctx, "listener_manager.lds.update_success")
		if err != nil || n > 0 {
			return err
		}
		if err := e.NoRejections(ctx); err != nil {
			return err
		}
		return fmt.Errorf("no listeners yet")
	})
	if err := e.NoRejections(context.Background()); err != nil {
		t.Error(err)
	}
	created, err := e.Stat(context.Background(), "listener_manager.listener_added")
	if err != nil || created < 15 {
		t.Errorf("%d listeners, %v", created, err)
	}
	dump, err := e.ConfigDump(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	held, err := json.Marshal(dump)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"http.jwt_authn", "http.ext_authz", "http.rbac", "network.rbac", "http.grpc_web", "network.mongo_proxy", "uri_template",
		"sourced_metadata", "tracers.zipkin", "access_loggers.open_telemetry", "extension_filters.cel", "virtualInbound_9999-tcp-plain",
		"0.0.0.0_9090-tcp-mtls", "shop/api/tls/0/0", "10.0.0.5_7946", "172.16.0.0", "istio_dry_run_deny_",
	} {
		if !bytes.Contains(held, []byte(part)) {
			t.Errorf("the listeners hold no %s", part)
		}
	}
	for _, word := range []string{"eprecated", "rror adding listener"} {
		lines, err := e.Log(word)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			t.Error(l)
		}
	}
}
