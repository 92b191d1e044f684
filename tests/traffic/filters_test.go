package traffic

import "testing"

// patches is an EnvoyFilter.
func patches(name, spec string) string {
	return object("networking.istio.io/v1alpha3", "EnvoyFilter", name, spec)
}

// inserted is an EnvoyFilter that puts an HTTP filter before others of the workload limited; config is indented by ten.
func inserted(name, before, config string) string {
	return patches(name, `
  workloadSelector: {labels: {app: limited}}
  configPatches:
  - applyTo: HTTP_FILTER
    match: {context: SIDECAR_INBOUND, listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager`+before+`}}}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: `+name+`
        typed_config:`+config)
}

// filters are scenarios about EnvoyFilters.
func filters() []scenario {
	return []scenario{
		{
			name: "filter-inbound", beyond: "rates, and Lua",
			objects: through("${host}", "limited") + inserted("${name}-limit", "", `
          "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
          stat_prefix: http_local_rate_limiter
          token_bucket: {max_tokens: 3, tokens_per_fill: 3, fill_interval: 3600s}
          filter_enabled: {default_value: {numerator: 100, denominator: HUNDRED}}
          filter_enforced: {default_value: {numerator: 100, denominator: HUNDRED}}
          response_headers_to_add: [{header: {key: x-limited, value: "true"}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}]`) +
				inserted("${name}-script", ", subFilter: {name: envoy.filters.http.router}", `
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code:
            inline_string: "function envoy_on_response(h) h:headers():add('x-script', 'was here') end"`),
			then: func(t *testing.T, r *run) {
				for range 3 {
					if err := r.check(t.Context(), exchange{backend: "limited", answer: headers{"x-script": "was here", "x-limited": ""}}); err != nil {
						t.Error(err)
					}
				}
				if err := r.check(t.Context(), exchange{status: 429, body: "local_rate_limited", answer: headers{"x-limited": "true"}}); err != nil {
					t.Error(err)
				}
			},
		},
		{
			name: "filter-route", backends: called("a"),
			objects: own("a") + service("other.${host}", at("a")) + patches("${name}", `
  workloadSelector: {labels: {app: caller}}
  configPatches:
  - applyTo: HTTP_ROUTE
    match: {context: SIDECAR_OUTBOUND, routeConfiguration: {vhost: {name: '${host}:${http}'}}}
    patch: {operation: MERGE, value: {response_headers_to_add: [{header: {key: x-patched, value: route}}]}}
  - applyTo: VIRTUAL_HOST
    match: {context: SIDECAR_OUTBOUND, routeConfiguration: {vhost: {name: '${host}:${http}'}}}
    patch: {operation: MERGE, value: {request_headers_to_add: [{header: {key: x-patched, value: host}}]}}
  - applyTo: CLUSTER
    match: {context: SIDECAR_OUTBOUND, cluster: {service: 'other.${host}'}}
    patch: {operation: REMOVE}`),
			exchanges: []exchange{
				{backend: "a", answer: headers{"x-patched": "route"}, seen: headers{"x-patched": "host"}},
				{host: "other.filter-route.example", status: 503, answer: headers{"x-patched": ""}},
				{from: "guest", backend: "a", answer: headers{"x-patched": ""}, seen: headers{"x-patched": ""}},
				{from: "guest", host: "other.filter-route.example", backend: "a"},
			},
		},
	}
}
