package main

import (
	"fmt"
	"strings"
)

// How many objects of each kind -rules adds.
const (
	destinationRules, virtualServices, policies, envoyFilters, sidecars = 200, 200, 50, 20, 20
	// inSubsets is how many of the DestinationRules define two subsets each, to which as many VirtualServices lead.
	inSubsets = 40
)

// untouched is how many of the first services have no rules: the benchmark writes its own for them.
const untouched = 20

// rules are users' objects as a mesh of that size has them. service names the i-th service.
func rules(service func(i int) (name, namespace string)) string {
	at := func(i int) (name, namespace string) { return service(untouched + i) }
	var out []string
	object := func(version, kind string, i int, namespace, spec string) {
		out = append(out, fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: rule-%d, namespace: %s}\nspec: %s\n", version, kind, i, namespace, spec))
	}
	for i := range destinationRules {
		name, ns := at(i)
		subsets := ""
		if i < inSubsets {
			subsets = ", subsets: [{name: v1, labels: {version: v1}}, {name: v2, labels: {version: v2}}]"
		}
		object("networking.istio.io/v1", "DestinationRule", i, ns, fmt.Sprintf(`{host: %s, trafficPolicy: {connectionPool: {tcp: {maxConnections: %d, connectTimeout: 3s}, http: {http2MaxRequests: 500}},
  outlierDetection: {consecutive5xxErrors: 5, interval: 10s}, loadBalancer: {simple: ROUND_ROBIN}}%s}`, name, 100+i, subsets))
	}
	for i := range virtualServices {
		name, ns := at(i)
		v1, v2 := "", ""
		if i < inSubsets {
			v1, v2 = ", subset: v1", ", subset: v2"
		}
		object("networking.istio.io/v1", "VirtualService", i, ns, fmt.Sprintf(`{hosts: [%[1]s], http: [
  {match: [{uri: {prefix: /v2}, headers: {x-canary: {exact: "%[2]d"}}}], timeout: 5s, retries: {attempts: 3, perTryTimeout: 1s}, route: [{destination: {host: %[1]s%[4]s}}]},
  {route: [{destination: {host: %[1]s%[3]s}}]}]}`, name, i, v1, v2))
	}
	for i := range policies {
		name, ns := at(i)
		object("security.istio.io/v1", "AuthorizationPolicy", i, ns, fmt.Sprintf(`{selector: {matchLabels: {app: %s}}, action: ALLOW, rules: [
  {from: [{source: {namespaces: [%s, istio-system]}}], to: [{operation: {methods: [GET, POST], paths: ["/api/*"]}}]}, {from: [{source: {principals: ["cluster.local/ns/%s/sa/default"]}}]}]}`, name, ns, ns))
	}
	for i := range envoyFilters {
		name, ns := at(i)
		selector := fmt.Sprintf("workloadSelector: {labels: {app: %s}}, ", name)
		if i < 2 { // of the whole mesh
			ns, selector = "istio-system", ""
		}
		object("networking.istio.io/v1alpha3", "EnvoyFilter", i, ns, fmt.Sprintf(`{%sconfigPatches: [{applyTo: HTTP_FILTER,
  match: {context: SIDECAR_INBOUND, proxy: {proxyVersion: '^1\..*'}, listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}},
  patch: {operation: INSERT_BEFORE, value: {name: rule-%d, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, default_source_code: {inline_string: "-- %d"}}}}}]}`, selector, i, i))
	}
	for i := range sidecars {
		name, ns := at(i)
		object("networking.istio.io/v1", "Sidecar", i, ns, fmt.Sprintf(`{workloadSelector: {labels: {app: %s}}, egress: [{hosts: ["./*", "istio-system/*", "ns-0/*"]}]}`, name))
	}
	return strings.Join(out, "---\n")
}
