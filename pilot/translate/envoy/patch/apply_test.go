package patch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

const (
	services = `
apiVersion: v1
kind: Service
metadata: {name: front, namespace: shop}
spec: {selector: {app: front}, clusterIP: 10.96.0.11, ports: [{name: http, port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Pod
metadata: {name: front-1, namespace: shop, labels: {app: front}}
spec: {serviceAccountName: front, containers: [{name: app, image: i}]}
status: {phase: Running, podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}], conditions: [{type: Ready, status: "True"}]}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {selector: {app: cart}, clusterIP: 10.96.0.12, ports: [{name: http, port: 80}, {name: tcp, port: 90}]}
`
	front = `{id: sidecar~10.0.0.1~front-1.shop~shop.svc.cluster.local, metadata: {NAMESPACE: shop, CLUSTER_ID: Kubernetes, ISTIO_VERSION: 1.32.0, TIER: gold, LABELS: {app: front}}}`
	other = `{id: sidecar~10.0.1.1~x-1.other~other.svc.cluster.local, metadata: {NAMESPACE: other, CLUSTER_ID: Kubernetes}}`
	cart  = "cds/outbound|80||cart.shop.svc.cluster.local"

	ofRouter = `filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}`
)

// envoyFilter writes an EnvoyFilter; head is what stands in its spec beside the patches.
func envoyFilter(namespace, name, head string, patches ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: %s, namespace: %s}\nspec:\n", name, namespace)
	if head != "" {
		fmt.Fprintf(&b, "  %s\n", head)
	}
	b.WriteString("  configPatches:\n")
	for _, p := range patches {
		fmt.Fprintf(&b, "  - %s\n", p)
	}
	return b.String()
}

// lua is a patch that inserts a filter before the router.
func lua(name, context, match string) string {
	return fmt.Sprintf(`{applyTo: HTTP_FILTER, match: {context: %s, %s listener: {%s}}, patch: {operation: INSERT_BEFORE, value: {name: %s, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, default_source_code: {inline_string: x}}}}}`, context, match, ofRouter, name)
}

func timeout(seconds int) string {
	return fmt.Sprintf(`{applyTo: CLUSTER, match: {cluster: {service: cart.shop.svc.cluster.local}}, patch: {operation: MERGE, value: {connect_timeout: %ds}}}`, seconds)
}

// httpFilters returns the names of the HTTP filters of each connection manager of a listener.
func (c *config) httpFilters(t testing.TB, name string) [][]string {
	t.Helper()
	l, ok := c.resources["lds/"+name].(*listenerv3.Listener)
	if !ok {
		t.Fatalf("there is no listener %s", name)
	}
	var out [][]string
	for _, chain := range l.FilterChains {
		for _, f := range chain.Filters {
			m := &hcmv3.HttpConnectionManager{}
			if f.GetTypedConfig().UnmarshalTo(m) != nil {
				continue
			}
			var names []string
			for _, h := range m.HttpFilters {
				names = append(names, h.Name)
			}
			out = append(out, names)
		}
	}
	if len(out) == 0 {
		t.Fatalf("%s has no HTTP filters", name)
	}
	return out
}

func (c *config) connectTimeout(t testing.TB) int64 {
	t.Helper()
	m, ok := c.resources[cart].(*clusterv3.Cluster)
	if !ok {
		t.Fatalf("there is no cluster %s", cart)
	}
	return m.GetConnectTimeout().GetSeconds()
}

// TestInsertBeforeRouterInAny is acceptance case 35.
func TestInsertBeforeRouterInAny(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patchedSlots(), services+envoyFilter("istio-system", "all", "", lua("mine", "ANY", "")))
	c := w.config(t, w.view(t, front))
	for _, l := range []string{"0.0.0.0_80", "virtualInbound"} {
		for _, filters := range c.httpFilters(t, l) {
			if n := len(filters); n < 2 || filters[n-2] != "mine" || filters[n-1] != "envoy.filters.http.router" {
				t.Errorf("%s has the filters %v", l, filters)
			}
		}
	}
	if len(c.problems) > 0 {
		t.Error(c.problems)
	}
}

// TestMergeAndReplaceList is acceptance case 36.
func TestMergeAndReplaceList(t *testing.T) {
	t.Parallel()
	for op, whole := range map[string]bool{"MERGE": false, "MERGE_AND_REPLACE_LIST": true} {
		w := newWorld(t, patchedSlots(), services+envoyFilter("shop", "vh", "",
			fmt.Sprintf(`{applyTo: VIRTUAL_HOST, match: {routeConfiguration: {vhost: {name: "cart.shop.svc.cluster.local:80"}}}, patch: {operation: %s, value: {domains: [x]}}}`, op)))
		rc, _ := w.config(t, w.view(t, front), "80").resources["rds/80"].(*routev3.RouteConfiguration)
		var domains []string
		for _, h := range rc.GetVirtualHosts() {
			if h.Name == "cart.shop.svc.cluster.local:80" {
				domains = h.Domains
			}
		}
		if !slices.Contains(domains, "x") || (len(domains) == 1) != whole {
			t.Errorf("%s: domains %v", op, domains)
		}
	}
}

// TestOrder is ingestion's acceptance case 42, and what comes after the priority.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patchedSlots(), services+
		envoyFilter("shop", "zero", "", lua("own-zero", "SIDECAR_INBOUND", ""))+
		envoyFilter("istio-system", "zero", "", lua("root-zero", "SIDECAR_INBOUND", ""))+
		envoyFilter("shop", "early", "priority: -1", lua("own-early", "SIDECAR_INBOUND", ""))+
		envoyFilter("istio-system", "late", "priority: 1", lua("root-late", "SIDECAR_INBOUND", ""))+
		envoyFilter("shop", "a", "", lua("own-a", "SIDECAR_INBOUND", ""), lua("own-a-2", "SIDECAR_INBOUND", "")))
	want := []string{"own-early", "root-zero", "own-a", "own-a-2", "own-zero", "root-late", "envoy.filters.http.router"}
	for _, filters := range w.config(t, w.view(t, front)).httpFilters(t, "virtualInbound") {
		if got := filters[max(0, len(filters)-len(want)):]; !slices.Equal(got, want) {
			t.Errorf("filters %v, want %v", got, want)
		}
	}
}

// TestSelection checks for which proxies patches are.
func TestSelection(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, namespace, head, match string
		front, other                 bool
	}{
		{"root", "istio-system", "", "", true, true},
		{"own namespace", "shop", "", "", true, false},
		{"selector", "istio-system", "workloadSelector: {labels: {app: front}}", "", true, false},
		{"other selector", "istio-system", "workloadSelector: {labels: {app: back}}", "", false, false},
		{"target", "shop", "targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: front}]", "", false, false},
		{"version", "istio-system", "", `proxy: {proxyVersion: '1\.3[0-9]'},`, true, false},
		{"other version", "istio-system", "", `proxy: {proxyVersion: '^1\.2'},`, false, false},
		{"bad version", "istio-system", "", `proxy: {proxyVersion: '(('},`, false, false},
		{"metadata", "istio-system", "", `proxy: {metadata: {TIER: gold}},`, true, false},
		{"other metadata", "istio-system", "", `proxy: {metadata: {TIER: tin}},`, false, false},
		{"no string", "istio-system", "", `proxy: {metadata: {LABELS: '{"app":"front"}'}},`, false, false},
	} {
		w := newWorld(t, patchedSlots(), services+envoyFilter(c.namespace, "one", c.head, lua("mine", "ANY", c.match)))
		for node, want := range map[string]bool{front: c.front, other: c.other} {
			if got := slices.Contains(w.config(t, w.view(t, node)).httpFilters(t, "0.0.0.0_80")[0], "mine"); got != want {
				t.Errorf("%s: %s is patched: %v, want %v", c.name, node, got, want)
			}
		}
	}
}

// TestBadPatches checks that a patch which cannot be applied is reported by name and harms nothing beside it.
func TestBadPatches(t *testing.T) {
	t.Parallel()
	hcm := `"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager`
	for name, bad := range map[string]string{
		"wrong type of a field":   `{applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: [1]}}}`,
		"unknown field":           `{applyTo: CLUSTER, patch: {operation: MERGE, value: {no_such_field: 1}}}`,
		"invalid cluster":         `{applyTo: CLUSTER, match: {context: SIDECAR_OUTBOUND}, patch: {operation: MERGE, value: {connect_timeout: -1s}}}`,
		"no value":                `{applyTo: CLUSTER, patch: {operation: MERGE}}`,
		"no name":                 `{applyTo: CLUSTER, patch: {operation: ADD, value: {connect_timeout: 1s}}}`,
		"no operation":            `{applyTo: CLUSTER, patch: {value: {name: x}}}`,
		"operation without sense": `{applyTo: ROUTE_CONFIGURATION, patch: {operation: REMOVE}}`,
		"another match":           `{applyTo: CLUSTER, match: {listener: {portNumber: 80}}, patch: {operation: REMOVE}}`,
		"unknown socket":          `{applyTo: CLUSTER, match: {cluster: {service: cart.shop.svc.cluster.local}}, patch: {operation: MERGE, value: {transport_socket: {name: t, typed_config: {"@type": type.googleapis.com/no.Such}}}}}`,
		"unknown type":            `{applyTo: HTTP_FILTER, match: {listener: {` + ofRouter + `}}, patch: {operation: INSERT_BEFORE, value: {name: bad, typed_config: {"@type": type.googleapis.com/no.Such}}}}`,
		"type mismatch":           `{applyTo: HTTP_FILTER, match: {listener: {` + ofRouter + `}}, patch: {operation: MERGE, value: {typed_config: {` + hcm + `}}}}`,
		"invalid filter":          `{applyTo: HTTP_FILTER, match: {listener: {` + ofRouter + `}}, patch: {operation: INSERT_BEFORE, value: {name: bad, typed_config: {` + hcm + `}}}}`,
		"invalid listener":        `{applyTo: LISTENER, match: {context: SIDECAR_OUTBOUND}, patch: {operation: MERGE, value: {listener_filters_timeout: -3s}}}`,
		"same chain twice":        `{applyTo: FILTER_CHAIN, match: {context: SIDECAR_INBOUND, listener: {name: virtualInbound}}, patch: {operation: ADD, value: {filter_chain_match: {destination_port: 15006}, filters: [{name: envoy.filters.network.echo, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}]}}}`,
		"domain twice":            `{applyTo: VIRTUAL_HOST, match: {routeConfiguration: {name: "80"}}, patch: {operation: ADD, value: {name: twice, domains: [cart.shop]}}}`,
		"regular expression":      `{applyTo: HTTP_ROUTE, match: {routeConfiguration: {name: "80"}}, patch: {operation: ADD, value: {match: {safe_regex: {regex: "(("}}, direct_response: {status: 200}}}}`,
		"extension":               `{applyTo: EXTENSION_CONFIG, patch: {operation: ADD, value: {name: x, typed_config: {"@type": type.googleapis.com/no.Such}}}}`,
	} {
		good := []string{timeout(7), lua("good", "ANY", "")}
		alone := newWorld(t, patchedSlots(), services+envoyFilter("shop", "ef", "", good...))
		w := newWorld(t, patchedSlots(), services+envoyFilter("shop", "ef", "", good[0], bad, good[1]))
		want, got := alone.config(t, alone.view(t, front), "80"), w.config(t, w.view(t, front), "80")
		if len(want.problems) > 0 {
			t.Fatal(want.problems)
		}
		if len(got.problems) == 0 {
			t.Errorf("%s: nothing is reported", name)
		}
		for _, p := range got.problems {
			if !strings.HasPrefix(p, "EnvoyFilter/shop/ef configPatches[1]: ") && !strings.HasPrefix(p, "invalid ") {
				t.Errorf("%s: the problem %q does not name the patch", name, p)
			}
		}
		got.problems = nil
		if d := got.same(want); d != "" {
			t.Errorf("%s: harms others: %s", name, d)
		}
	}
}

// TestExtensions checks what is handed to the discovery of extensions.
func TestExtensions(t *testing.T) {
	t.Parallel()
	extension := func(name, text string) string {
		return fmt.Sprintf(`{applyTo: EXTENSION_CONFIG, patch: {operation: ADD, value: {name: %s, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, default_source_code: {inline_string: %s}}}}}`, name, text)
	}
	w := newWorld(t, patchedSlots(), services+envoyFilter("shop", "ef", "", extension("a", "one"), extension("b", "two"), extension("a", "three")))
	got := w.extensions(t, w.view(t, front))
	if want := []string{"a:one", "b:two"}; !slices.Equal(got, want) {
		t.Errorf("extensions %v, want %v", got, want)
	}
	if got := w.extensions(t, w.view(t, other)); got != nil {
		t.Errorf("another namespace has %v", got)
	}
}

// TestCost checks what an edit of one patch makes anew, and that who has no patches does nothing more than without.
func TestCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patchedSlots(), services+envoyFilter("shop", "ef", "", timeout(3), lua("one", "SIDECAR_OUTBOUND", "")))
	w.config(t, w.view(t, front), "80")
	w.config(t, w.view(t, other), "80")
	clear(w.slots.Made)
	w.apply(t, envoyFilter("shop", "ef", "", timeout(3), lua("two", "SIDECAR_OUTBOUND", "")))
	w.config(t, w.view(t, other), "80")
	if len(w.slots.Made) != 0 {
		t.Errorf("another namespace's filter made %v anew", w.slots.Made)
	}
	c := w.config(t, w.view(t, front), "80")
	for slot, n := range w.slots.Made {
		if slot != "lds/outbound" {
			t.Errorf("an edited patch of outbound listeners made %d units of %s anew", n, slot)
		}
	}
	if !slices.Contains(c.httpFilters(t, "0.0.0.0_80")[0], "two") {
		t.Error("the edit had no effect")
	}

	plain, patched := newWorld(t, plainSlots(), services), newWorld(t, patchedSlots(), services)
	for _, w := range []*world{plain, patched} {
		w.config(t, w.view(t, front), "80")
		w.config(t, w.view(t, other), "80")
	}
	if a, b := plain.graph.Stats(), patched.graph.Stats(); a.Computed != b.Computed || a.Cells != b.Cells {
		t.Errorf("without EnvoyFilters %+v becomes %+v", a, b)
	}
}

// TestSharing checks that proxies of two namespaces share clusters although one has a filter for listeners.
func TestSharing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patchedSlots(), services+envoyFilter("shop", "ef", "", lua("one", "ANY", ""))+envoyFilter("istio-system", "all", "", timeout(3)))
	w.config(t, w.view(t, front))
	clear(w.slots.Made)
	w.config(t, w.view(t, other))
	if n := w.slots.Made["cds/outbound"]; n != 0 {
		t.Errorf("%d units of clusters are made for each namespace", n)
	}
}

// TestRemoval checks that everything is as before when the EnvoyFilter is gone.
func TestRemoval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patchedSlots(), services)
	before := w.config(t, w.view(t, front), "80")
	w.apply(t, envoyFilter("shop", "ef", "", timeout(3), lua("one", "ANY", "")))
	if c := w.config(t, w.view(t, front), "80"); c.connectTimeout(t) != 3 {
		t.Error("the patch had no effect")
	}
	w.change(model.Event{Key: model.ObjectKey{Kind: model.KindEnvoyFilter, Namespace: "shop", Name: "ef"}})
	if d := w.config(t, w.view(t, front), "80").same(before); d != "" {
		t.Errorf("after the removal: %s", d)
	}
}
