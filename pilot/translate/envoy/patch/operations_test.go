package patch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"sigs.k8s.io/yaml"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// read parses one patch in YAML.
func read(t *testing.T, text string) *patch {
	t.Helper()
	js, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	spec := &networking.EnvoyFilter_EnvoyConfigObjectPatch{}
	if err := protojson.Unmarshal(js, spec); err != nil {
		t.Fatal(err)
	}
	p := parse(model.ObjectKey{Kind: model.KindEnvoyFilter, Namespace: "ns", Name: "ef"}, 0, spec)
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p
}

func mustPack[M proto.Message](t *testing.T, m M) *hcmv3.HttpFilter_TypedConfig {
	t.Helper()
	a, err := packed(m)
	if err != nil {
		t.Fatal(err)
	}
	return &hcmv3.HttpFilter_TypedConfig{TypedConfig: a}
}

// TestFilterOperations checks each operation on a list of filters, with and without a filter that is named.
func TestFilterOperations(t *testing.T) {
	t.Parallel()
	const value = `, value: {name: new, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault}}`
	for _, c := range []struct{ op, name, want string }{
		{"ADD", "", "a b a router new"},
		{"ADD", "b", "a b a router new"},
		{"INSERT_FIRST", "", "new a b a router"},
		{"INSERT_FIRST", "b", "new a b a router"},
		{"INSERT_BEFORE", "", "new a b a router"},
		{"INSERT_BEFORE", "b", "a new b a router"},
		{"INSERT_BEFORE", "none", "a b a router"},
		{"INSERT_BEFORE", "envoy.router", "a b a new router"},
		{"INSERT_AFTER", "", "a b a router new"},
		{"INSERT_AFTER", "b", "a b new a router"},
		{"INSERT_AFTER", "none", "a b a router"},
		{"REPLACE", "a", "new b a router"},
		{"REPLACE", "", "a b a router"},
		{"REPLACE", "none", "a b a router"},
		{"REMOVE", "a", "b router"},
		{"REMOVE", "", "a b a router"},
		{"MERGE", "b", "a new a router"},
		{"MERGE", "none", "a b a router"},
		{"MERGE", "", "new new new router"}, // all of its type
	} {
		v := value
		if c.op == "REMOVE" {
			v = ""
		}
		p := read(t, fmt.Sprintf(`{applyTo: HTTP_FILTER, match: {listener: {filterChain: {filter: {subFilter: {name: %q}}}}}, patch: {operation: %s%s}}`, c.name, c.op, v))
		var list []*hcmv3.HttpFilter
		for _, n := range []string{"a", "b", "a"} {
			list = append(list, &hcmv3.HttpFilter{Name: n, ConfigType: mustPack(t, &faultv3.HTTPFault{})})
		}
		list = append(list, &hcmv3.HttpFilter{Name: "envoy.filters.http.router", ConfigType: mustPack(t, &routerv3.Router{})})
		got := editFilters(list, []*patch{p}, (*patch).httpFilter, func(p *patch, err error) { t.Errorf("%s: %v", p, err) })
		var names []string
		for _, f := range got {
			names = append(names, strings.TrimPrefix(f.Name, "envoy.filters.http."))
		}
		if s := strings.Join(names, " "); s != c.want {
			t.Errorf("%s at %q gives %q, want %q", c.op, c.name, s, c.want)
		}
	}
}

// TestRouteOperations does the same for routes, of which REMOVE and MERGE come first.
func TestRouteOperations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ op, match, want string }{
		{"ADD", "", "a b new"},
		{"INSERT_FIRST", "", "new a b"},
		{"INSERT_FIRST", "name: b", "new a b"},
		{"INSERT_FIRST", "name: none", "a b"},
		{"INSERT_BEFORE", "", "new a b"},
		{"INSERT_BEFORE", "name: b", "a new b"},
		{"INSERT_BEFORE", "name: none", "a b"},
		{"INSERT_AFTER", "", "a b new"},
		{"INSERT_AFTER", "name: a", "a new b"},
		{"INSERT_AFTER", "action: DIRECT_RESPONSE", "a b new"},
		{"REMOVE", "action: ROUTE", "b"},
		{"REMOVE", "action: REDIRECT", "a b"},
		{"MERGE", "name: a", "new b"},
	} {
		match := "routeConfiguration: {vhost: {name: v}}"
		if c.match != "" {
			match = "routeConfiguration: {vhost: {name: v, route: {" + c.match + "}}}"
		}
		value := ""
		switch c.op {
		case "REMOVE":
		case "MERGE":
			value = ", value: {name: new}"
		default:
			value = ", value: {name: new, match: {prefix: /}, direct_response: {status: 200}}"
		}
		p := read(t, fmt.Sprintf(`{applyTo: HTTP_ROUTE, match: {%s}, patch: {operation: %s%s}}`, match, c.op, value))
		h := editHost(&routev3.VirtualHost{Name: "v", Routes: []*routev3.Route{
			{Name: "a", Action: &routev3.Route_Route{Route: &routev3.RouteAction{}}},
			{Name: "b", Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 204}}},
		}}, []*patch{p})
		var names []string
		for _, r := range h.Routes {
			names = append(names, r.Name)
		}
		if s := strings.Join(names, " "); s != c.want {
			t.Errorf("%s at %q gives %q, want %q", c.op, c.match, s, c.want)
		}
	}
}

// TestTransportSockets checks how a cluster's transport sockets take a patch.
func TestTransportSockets(t *testing.T) {
	t.Parallel()
	tls := func(name, sni string) *corev3.TransportSocket {
		a, err := packed(&tlsv3.UpstreamTlsContext{Sni: sni, AllowRenegotiation: true})
		if err != nil {
			t.Fatal(err)
		}
		return &corev3.TransportSocket{Name: name, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: a}}
	}
	told := func(s *corev3.TransportSocket) string {
		m := &tlsv3.UpstreamTlsContext{}
		if s.GetTypedConfig().UnmarshalTo(m) != nil {
			return "none"
		}
		return fmt.Sprintf("%s %s %v", s.Name, m.Sni, m.AllowRenegotiation)
	}
	p := read(t, `{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 2s, transport_socket: {name: t, typed_config: {"@type": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext, sni: new}}}}}`)
	for _, c := range []struct {
		name    string
		cluster *clusterv3.Cluster
		want    string
		dropped bool
	}{
		{"none", &clusterv3.Cluster{}, "t new false", false},
		{"same", &clusterv3.Cluster{TransportSocket: tls("t", "old")}, "t new true", false},
		{"other", &clusterv3.Cluster{TransportSocket: tls("u", "old")}, "t new false", false},
		{"match", &clusterv3.Cluster{TransportSocketMatches: []*clusterv3.Cluster_TransportSocketMatch{{TransportSocket: tls("t", "old")}}}, "t new true", false},
		{"no match", &clusterv3.Cluster{TransportSocketMatches: []*clusterv3.Cluster_TransportSocketMatch{{TransportSocket: tls("u", "old")}}}, "u old true", true},
	} {
		dropped := false
		editCluster(c.cluster, []*patch{p}, func(*patch, error) { dropped = true })
		got := told(c.cluster.GetTransportSocket())
		if m := c.cluster.GetTransportSocketMatches(); len(m) > 0 {
			got = told(m[0].GetTransportSocket())
			if c.cluster.TransportSocket != nil {
				t.Errorf("%s: a socket beside the choice", c.name)
			}
		}
		if got != c.want || dropped != c.dropped || dropped == (c.cluster.GetConnectTimeout() != nil) {
			t.Errorf("%s: %s, dropped %v, want %s", c.name, got, dropped, c.want)
		}
	}
}

// TestMergeRules checks what merging does to lists, durations and nested messages, and that nothing is shared.
func TestMergeRules(t *testing.T) {
	t.Parallel()
	src := &routev3.Route{
		RequestHeadersToRemove: []string{"b"},
		Action:                 &routev3.Route_Route{Route: &routev3.RouteAction{Timeout: &durationpb.Duration{Seconds: 2}}},
	}
	for replace, want := range map[bool][]string{false: {"a", "b"}, true: {"b"}} {
		dst := &routev3.Route{
			Name: "r", RequestHeadersToRemove: []string{"a"},
			Action: &routev3.Route_Route{Route: &routev3.RouteAction{Timeout: &durationpb.Duration{Seconds: 1, Nanos: 5}, PrefixRewrite: "/x"}},
		}
		merge(dst, src, replace)
		if !slices.Equal(dst.RequestHeadersToRemove, want) || dst.Name != "r" || dst.GetRoute().PrefixRewrite != "/x" {
			t.Errorf("replacing lists %v: %v", replace, dst)
		}
		if d := dst.GetRoute().GetTimeout(); d.GetSeconds() != 2 || d.GetNanos() != 0 {
			t.Errorf("the duration became %v", d)
		}
		dst.GetRoute().Timeout.Seconds = 9
		if src.GetRoute().GetTimeout().GetSeconds() != 2 {
			t.Error("what was merged is shared")
		}
	}
}

// TestChainMatches checks what a match of filter chains looks at.
func TestChainMatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t, plainSlots(), services)
	inbound, _ := w.config(t, w.view(t, front)).resources["lds/virtualInbound"].(*listenerv3.Listener)
	for match, want := range map[string]int{
		``: len(inbound.FilterChains), `portNumber: 8080`: 2, `portNumber: 15006`: 1, `portNumber: 1`: 0,
		`portNumber: 8080, filterChain: {transportProtocol: tls}`: 1, `filterChain: {destinationPort: 8080}`: 2,
		`filterChain: {name: virtualInbound-blackhole}`:                           1,
		`portNumber: 8080, filterChain: {applicationProtocols: "istio,istio-h2"}`: 1,
		`filterChain: {applicationProtocols: "istio,nope"}`:                       0,
		`filterChain: {sni: a.example}`:                                           0, `filterChain: {transportSocket: no.such}`: 0,
		`portNumber: 8080, filterChain: {transportSocket: envoy.transport_sockets.tls}`: 1,
		`name: virtualOutbound`: 0, `name: virtualInbound, portNumber: 8080`: 2,
	} {
		p := read(t, `{applyTo: FILTER_CHAIN, match: {listener: {`+match+`}}, patch: {operation: REMOVE}}`)
		n := 0
		for _, c := range inbound.FilterChains {
			if p.matchesListener(inbound) && p.matchesChain(inbound, c) {
				n++
			}
		}
		if n != want {
			t.Errorf("{%s} matches %d chains, want %d", match, n, want)
		}
	}
}

// TestPatchedRoutesAreWhole checks that a proxy with patches of routes is not sent virtual hosts apart, where others are.
func TestPatchedRoutesAreWhole(t *testing.T) {
	t.Parallel()
	settings := model.DefaultSettings()
	settings.VHDS = model.VHDSOn
	w := newWorldWith(t, settings, patchedSlots(), services+envoyFilter("shop", "ef", "",
		`{applyTo: ROUTE_CONFIGURATION, match: {context: SIDECAR_OUTBOUND}, patch: {operation: MERGE, value: {request_headers_to_remove: [x]}}}`))
	for node, want := range map[string]string{front: "80", other: "80~vhds"} {
		l, _ := w.config(t, w.view(t, stock(node))).resources["lds/0.0.0.0_80"].(*listenerv3.Listener)
		var got []string
		for _, c := range l.GetFilterChains() {
			for _, f := range c.Filters {
				m := &hcmv3.HttpConnectionManager{}
				if f.GetTypedConfig().UnmarshalTo(m) == nil {
					got = append(got, m.GetRds().GetRouteConfigName())
				}
			}
		}
		if !slices.Equal(got, []string{want}) {
			t.Errorf("%s asks for %v, want %s", node, got, want)
		}
	}
}

// stock returns a node as a stock Envoy states it.
func stock(node string) string {
	return strings.TrimSuffix(node, "}") + ", extensions: [{name: envoy.filters.http.router}, {name: envoy.filters.network.tcp_proxy}]}"
}

// TestChainsOfStockEnvoyEnd checks that a stock Envoy is not sent a chain that goes on behind its end: the patch is left
// out and named, the others are applied. Istio's proxies are sent what the patches make.
func TestChainsOfStockEnvoyEnd(t *testing.T) {
	t.Parallel()
	lua := func(name string) string {
		return fmt.Sprintf(`{name: %s, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua}}`, name)
	}
	echo := `{name: echo, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}`
	const manager = `match: {context: SIDECAR_OUTBOUND, listener: {portNumber: 80, filterChain: {filter: {name: envoy.filters.network.http_connection_manager}}}}`
	w := newWorld(t, patchedSlots(), services+envoyFilter("shop", "ef", "",
		fmt.Sprintf(`{applyTo: HTTP_FILTER, %s, patch: {operation: ADD, value: %s}}`, manager, lua("late")),
		fmt.Sprintf(`{applyTo: HTTP_FILTER, %s, patch: {operation: INSERT_FIRST, value: %s}}`, manager, lua("first")),
		fmt.Sprintf(`{applyTo: NETWORK_FILTER, %s, patch: {operation: INSERT_BEFORE, value: %s}}`, manager, echo)))
	for node, want := range map[string][2]int{front: {2, 0}, stock(front): {1, 2}} {
		got := w.config(t, w.view(t, node))
		text := fmt.Sprint(got.resources["lds/0.0.0.0_80"])
		for name, expected := range map[string]bool{"first": true, "late": want[0] == 2, "echo": want[0] == 2} {
			if strings.Contains(text, fmt.Sprintf("name:%q", name)) != expected {
				t.Errorf("%s: filter %s is there: %v", node, name, !expected)
			}
		}
		named := 0
		for _, p := range got.problems {
			if strings.Contains(p, "EnvoyFilter/shop/ef configPatches[") && strings.Contains(p, "end") {
				named += strings.Count(p, "configPatches[")
			}
		}
		if named != want[1] {
			t.Errorf("%s: problems %v, want %d", node, got.problems, want[1])
		}
	}
}

// TestPanicIsContained checks that a patch whose application panics is left out alone.
func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	good, bad := read(t, timeout(3)), read(t, timeout(4))
	out, errs := apply(&clusterv3.Cluster{Name: "c"}, []*patch{bad, good}, func(m proto.Message, patches []*patch, fail func(*patch, error)) proto.Message {
		if slices.Contains(patches, bad) {
			panic("on purpose")
		}
		return editCluster(m, patches, fail)
	}, check)
	if c, _ := out.(*clusterv3.Cluster); c.GetConnectTimeout().GetSeconds() != 3 || len(errs) != 1 || !strings.Contains(errs[0].Error(), "on purpose") {
		t.Errorf("%v, problems %v", out, errs)
	}
}
