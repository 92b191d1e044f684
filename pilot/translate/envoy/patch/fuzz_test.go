package patch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
)

func matchesDrawn() []string {
	return []string{
		``, `cluster: {service: cart.shop.svc.cluster.local}`, `cluster: {portNumber: 8080}`, `cluster: {name: PassthroughCluster}`, `listener: {portNumber: 80}`,
		`listener: {name: virtualInbound}`, `listener: {portNumber: 8080, filterChain: {filter: {name: envoy.filters.network.http_connection_manager}}}`,
		`listener: {` + ofRouter + `}`, `listener: {listenerFilter: envoy.filters.listener.tls_inspector}`, `listener: {filterChain: {transportProtocol: tls}}`,
		`routeConfiguration: {name: "80"}`, `routeConfiguration: {portNumber: 8080}`, `routeConfiguration: {vhost: {name: "cart.shop.svc.cluster.local:80"}}`,
		`routeConfiguration: {vhost: {route: {action: ROUTE}}}`, `routeConfiguration: {vhost: {route: {name: default}}}`, `proxy: {proxyVersion: "1.3"}`,
	}
}

func drawnPatch() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		word := func(label string, of ...string) string { return rapid.SampledFrom(of).Draw(t, label) }
		match := "context: " + word("context", "ANY", "SIDECAR_INBOUND", "SIDECAR_OUTBOUND", "GATEWAY", "WAYPOINT")
		if m := word("match", matchesDrawn()...); m != "" {
			match += ", " + m
		}
		return fmt.Sprintf("{applyTo: %s, match: {%s}, patch: {operation: %s, value: %s}}",
			word("to", "CLUSTER", "LISTENER", "LISTENER_FILTER", "FILTER_CHAIN", "NETWORK_FILTER", "HTTP_FILTER", "ROUTE_CONFIGURATION",
				"VIRTUAL_HOST", "HTTP_ROUTE", "EXTENSION_CONFIG", "BOOTSTRAP"), match,
			word("operation", "MERGE", "ADD", "REMOVE", "INSERT_BEFORE", "INSERT_AFTER", "INSERT_FIRST", "REPLACE", "MERGE_AND_REPLACE_LIST"),
			word("value", fixture.PatchValues()...))
	})
}

// property is that whatever a user writes, all resources are valid (config checks it), what he writes wrongly is told
// with his object's name, a proxy that he does not select is unharmed, and the state does not depend on the way to it.
func property(t *rapid.T, tb testing.TB) {
	w := newWorld(tb, patchedSlots(), services)
	before, unharmed := w.config(tb, w.view(tb, front), "80"), w.config(tb, w.view(tb, other), "80")
	for range rapid.IntRange(1, 2).Draw(t, "edits") {
		text := envoyFilter("shop", "drawn", "", rapid.SliceOfN(drawnPatch(), 1, 4).Draw(t, "patches")...)
		w.apply(tb, text)
		got := w.config(tb, w.view(tb, front), "80")
		for _, p := range got.problems {
			if !slices.ContainsFunc([]string{"EnvoyFilter/shop/drawn configPatches[", "invalid ", "caused by"}, func(s string) bool { return strings.HasPrefix(p, s) }) {
				t.Fatalf("a problem without a name: %q", p)
			}
			if strings.Contains(p, "panicked") {
				t.Fatal(p)
			}
		}
		fresh := newWorld(tb, patchedSlots(), services+text)
		if d := got.same(fresh.config(tb, fresh.view(tb, front), "80")); d != "" {
			t.Fatalf("the history shows: %s", d)
		}
		if d := w.config(tb, w.view(tb, other), "80").same(unharmed); d != "" {
			t.Fatalf("another namespace's proxy: %s", d)
		}
	}
	w.change(model.Event{Key: model.ObjectKey{Kind: model.KindEnvoyFilter, Namespace: "shop", Name: "drawn"}})
	if d := w.config(tb, w.view(tb, front), "80").same(before); d != "" {
		t.Fatalf("after the removal: %s", d)
	}
}

// TestAnyEnvoyFilter checks property.
func TestAnyEnvoyFilter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) { property(r, t) })
}

// FuzzEnvoyFilter checks property for what the fuzzer finds.
func FuzzEnvoyFilter(f *testing.F) {
	f.Fuzz(func(t *testing.T, data []byte) {
		rapid.MakeFuzz(func(r *rapid.T) { property(r, t) })(t, data)
	})
}
