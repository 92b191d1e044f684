package simulate_test

import (
	"net/netip"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/simulate"
)

// message reads a message in YAML.
func message[M proto.Message](t *testing.T, into M, text string) M {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := protojson.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// sent walks a request through a listener at 127.0.0.1:80 with a JWT filter, to one cluster.
func sent(t *testing.T, cluster, listener string, q simulate.Request) simulate.Outcome {
	t.Helper()
	r := &simulate.Resources{}
	r.Add("c", message(t, &clusterv3.Cluster{}, "name: c\n"+cluster))
	r.Add("l", message(t, &listenerv3.Listener{}, `
name: l
address: {socketAddress: {address: 127.0.0.1, portValue: 80}}
filterChains:
- filters:
  - name: envoy.filters.network.http_connection_manager
    typedConfig:
      "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
      statPrefix: a
      routeConfig: {virtualHosts: [{name: a, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: c}}]}]}
      httpFilters:
      - name: jwt
        typedConfig:
          "@type": type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication
          providers:
            me: {issuer: me, fromParams: [token], fromHeaders: [{name: x-token, valuePrefix: "T "}]}
            kept: {issuer: kept, forward: true}
            plain: {issuer: plain}
          rules: [{match: {prefix: /}, requires: {requiresAny: {requirements: [{providerName: me}, {providerName: kept}, {providerName: plain}, {allowMissing: {}}]}}}]
      - {name: envoy.filters.http.router, typedConfig: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
`+listener))
	q.Source, q.Destination, q.Host = netip.MustParseAddrPort("127.0.0.1:1"), netip.MustParseAddrPort("127.0.0.1:80"), "a.example"
	return simulate.Walk(r, q).Outcome
}

// TestKindsOfClusters checks where clusters that need no EDS lead. Each was found by comparison with a real Envoy.
func TestKindsOfClusters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ cluster, listener, want string }{
		"DNS": {
			"clusterType: {name: envoy.clusters.dns}\nloadAssignment: {clusterName: c, endpoints: [{lbEndpoints: [{endpoint: {address: {socketAddress: {address: b.example, portValue: 81}}}}]}]}", "",
			"b.example:81",
		},
		"forward proxy":            {"clusterType: {name: envoy.clusters.dynamic_forward_proxy}", "", "a.example"},
		"original destination":     {"type: ORIGINAL_DST", "listenerFilters: [{name: envoy.filters.listener.original_dst}]", "127.0.0.1:80"},
		"none without redirection": {"type: ORIGINAL_DST", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := sent(t, c.cluster, c.listener, simulate.Request{})
			if got := strings.Join(o.Reached(), " "); got != c.want {
				t.Errorf("%s leads to %q, want %q", o, got, c.want)
			}
			if len(o.Destinations) == 1 && (o.Destinations[0].Problem == "") != (c.want != "") {
				t.Errorf("got %+v", o.Destinations)
			}
		})
	}
}

// TestTokensAreWithdrawn checks that the application sees a token only if a provider forwards it.
func TestTokensAreWithdrawn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ issuer, path, header, value, wantPath, wantHeader string }{
		"parameter":          {"me", "/x?token=1", "", "", "/x", ""},
		"among parameters":   {"me", "/x?a=1&token=1&b", "", "", "/x?a=1&b", ""},
		"header":             {"me", "/", "x-token", "T 1", "/", ""},
		"another's header":   {"me", "/?tokens=1", "x-token", "other", "/?tokens=1", "other"},
		"forwarded":          {"kept", "/?access_token=1", "authorization", "Bearer 1", "/?access_token=1", "Bearer 1"},
		"the usual places":   {"plain", "/?access_token=1", "authorization", "Bearer 1", "/", ""},
		"no token at all":    {"", "/?token=1", "x-token", "T 1", "/?token=1", "T 1"},
		"without parameters": {"plain", "/", "authorization", "Bearer 1", "/", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := simulate.Request{Path: c.path, Headers: map[string]string{c.header: c.value}}
			if c.issuer != "" {
				q.Claims = map[string]any{"iss": c.issuer}
			}
			o := sent(t, "clusterType: {name: envoy.clusters.dynamic_forward_proxy}", "", q)
			if o.Kind != simulate.Forwarded || o.Request.Path != c.wantPath || o.Request.Headers[c.header] != c.wantHeader {
				t.Errorf("%s: %s %v", o, o.Request.Path, o.Request.Headers)
			}
			if q.Headers[c.header] != c.value {
				t.Error("the caller's headers were changed")
			}
		})
	}
}
