package traffic

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// answers are scenarios about requests that go elsewhere or nowhere.
func answers() []scenario {
	return []scenario{
		{
			name: "rewrites", backends: called("a"),
			objects: own("a") + routed(`
  - {match: [{uri: {prefix: /old/}}], rewrite: {uri: /new/, authority: inner.example}, route: [{destination: {host: '${host}'}}]}
  - {match: [{uri: {prefix: /users}}], rewrite: {uriRegexRewrite: {match: '^/users/([^/]+)/posts/(.*)$$', rewrite: '/\2/by/\1'}}, route: [{destination: {host: '${host}'}}]}
  - {match: [{uri: {prefix: /set}}], headers: {request: {set: {":authority": set.example}}}, route: [{destination: {host: '${host}'}}]}
  - {route: [{destination: {host: '${host}'}}]}`),
			exchanges: []exchange{
				{path: "/old/x?q=1", seenPath: "/new/x?q=1", seenHost: "inner.example", seen: headers{"x-envoy-original-path": "/old/x?q=1"}},
				{path: "/users/me/posts/7?q", seenPath: "/7/by/me?q", seenHost: "rewrites.example"},
				{path: "/set", seenPath: "/set", seenHost: "set.example"},
				{path: "/plain", seenPath: "/plain", seenHost: "rewrites.example"},
			},
		},
		{
			name: "redirects", backends: called("a"),
			objects: own("a") + routed(`
  - {match: [{uri: {prefix: /moved}}], redirect: {uri: /here, authority: other.example, redirectCode: 307}}
  - {match: [{uri: {prefix: /default}}], redirect: {scheme: https, derivePort: FROM_PROTOCOL_DEFAULT}}
  - {match: [{uri: {prefix: /port}}], redirect: {authority: other.example, derivePort: FROM_REQUEST_PORT}}
  - {match: [{uri: {prefix: /fixed}}], redirect: {port: 8443, scheme: https, redirectCode: 302}}
  - {route: [{destination: {host: '${host}'}}]}`),
			then: func(t *testing.T, r *run) {
				for _, x := range []exchange{
					{path: "/moved/x", status: 307, answer: headers{"location": "http://other.example/here"}},
					{path: "/default?q=1", status: 301, answer: headers{"location": "https://redirects.example/default?q=1"}},
					{path: "/port", status: 301, answer: headers{"location": r.expand(t, "http://other.example:${http}/port")}},
					{path: "/fixed", status: 302, answer: headers{"location": "https://redirects.example:8443/fixed"}},
				} {
					if err := r.check(t.Context(), x); err != nil {
						t.Error(err)
					}
				}
				if n := r.backends["a"].Requests(); n != 0 {
					t.Errorf("the backend got %d requests", n)
				}
			},
		},
		{
			name: "direct-response", backends: called("a"),
			objects: own("a") + routed(`
  - {match: [{uri: {prefix: /teapot}}], directResponse: {status: 418, body: {string: short and stout}}, headers: {response: {set: {x-made: proxy}}}}
  - {route: [{destination: {host: '${host}'}}]}`),
			exchanges: []exchange{
				{path: "/teapot", status: 418, body: "short and stout", answer: headers{"x-made": "proxy"}},
				{backend: "a", answer: headers{"x-made": ""}},
			},
		},
	}
}

// changes are scenarios about what routes add to requests and answers.
func changes() []scenario {
	return []scenario{
		{
			name: "headers", backends: []backend{{"a", harness.Behaviour{Header: http.Header{"X-Secret": {"s"}, "X-Kept": {"app"}}}}},
			objects: own("a") + subsets("a") + routed(`
  - headers:
      request: {set: {x-set: new, x-percent: "50%% off"}, add: {x-add: more}, remove: [x-gone]}
      response: {set: {x-made: "%RESPONSE_CODE%"}, add: {x-kept: route}, remove: [x-secret]}
    route: [`+to("a", `headers: {request: {set: {x-of: destination}}, response: {add: {x-also: destination}}}`)+`]`),
			exchanges: []exchange{{
				headers: headers{"x-set": "old", "x-add": "one", "x-gone": "soon"},
				seen:    headers{"x-set": "new", "x-add": "one,more", "x-gone": "", "x-of": "destination", "x-percent": "50% off"},
				answer:  headers{"x-secret": "", "x-kept": "app,route", "x-made": "200", "x-also": "destination"},
			}},
		},
		{
			name: "cors", backends: called("a"),
			objects: own("a") + routed(`
  - corsPolicy: {allowOrigins: [{exact: "https://good.example"}, {regex: "https://.*\\.fine\\.example"}], allowMethods: [GET, PUT], allowHeaders: [x-one], exposeHeaders: [x-two], maxAge: 24h, allowCredentials: true}
    route: [{destination: {host: '${host}'}}]`),
			exchanges: []exchange{
				{
					method: http.MethodOptions, headers: headers{"origin": "https://good.example", "access-control-request-method": "PUT"},
					answer: headers{
						"access-control-allow-origin": "https://good.example", "access-control-allow-methods": "GET,PUT", "access-control-allow-headers": "x-one",
						"access-control-max-age": "86400", "access-control-allow-credentials": "true", "content-type": "",
					},
				},
				{
					headers: headers{"origin": "https://a.fine.example"}, backend: "a",
					answer: headers{"access-control-allow-origin": "https://a.fine.example", "access-control-expose-headers": "x-two"},
				},
				{headers: headers{"origin": "https://bad.example"}, backend: "a", answer: headers{"access-control-allow-origin": ""}},
				{
					method: http.MethodOptions, headers: headers{"origin": "https://bad.example", "access-control-request-method": "PUT"},
					backend: "a", answer: headers{"access-control-allow-origin": ""},
				},
			},
		},
	}
}

// disturbances are scenarios about what harms requests on purpose, or does not harm them.
func disturbances() []scenario {
	return []scenario{
		{
			name: "mirror", backends: called("main", "shadow", "never"),
			objects: own("main", "shadow", "never") + subsets("main", "shadow", "never") + routed(`
  - route: [`+to("main")+`]
    mirrors: [{destination: {host: '${host}', subset: shadow}}, {destination: {host: '${host}', subset: never}, percentage: {value: 0}}]`),
			then: func(t *testing.T, r *run) {
				r.backends["shadow"].Set(harness.Behaviour{Status: http.StatusInternalServerError})
				const n = 10
				if c := r.count(t, n, exchange{path: "/m", headers: headers{"x-m": "1"}}); c["main"] != n {
					t.Errorf("answers: %v", c)
				}
				harness.Eventually(t, patience, func(context.Context) error {
					if got := r.backends["shadow"].Requests(); got != n {
						return fmt.Errorf("%d requests were mirrored, want %d", got, n)
					}
					return nil
				})
				if e := r.backends["shadow"].Last(); e.Path != "/m" || e.Headers.Get("x-m") != "1" || e.Host != "mirror.example" {
					t.Errorf("mirrored: %+v", e)
				}
				if got := r.backends["never"].Requests(); got != 0 {
					t.Errorf("%d requests were mirrored in spite of 0 %%", got)
				}
			},
		},
		{
			name: "faults", backends: called("a"),
			objects: own("a") + routed(`
  - {match: [{uri: {prefix: /abort}}], fault: {abort: {httpStatus: 599, percentage: {value: 100}}}, route: [{destination: {host: '${host}'}}]}
  - {match: [{uri: {prefix: /delay}}], fault: {delay: {fixedDelay: 0.4s, percentage: {value: 100}}}, route: [{destination: {host: '${host}'}}]}
  - {match: [{uri: {prefix: /never}}], fault: {abort: {httpStatus: 500, percentage: {value: 0}}, delay: {fixedDelay: 60s, percentage: {value: 0}}}, route: [{destination: {host: '${host}'}}]}`),
			exchanges: []exchange{
				{path: "/abort", status: 599, body: "fault filter abort"},
				{path: "/delay", backend: "a", atLeast: 350 * time.Millisecond},
				{path: "/never", backend: "a"},
			},
		},
		{
			name: "timeout", backends: []backend{{"slow", harness.Behaviour{Delay: time.Second}}},
			objects: own("slow") + routed(`
  - {match: [{uri: {prefix: /short}}], timeout: 0.2s, retries: {attempts: 0}, route: [{destination: {host: '${host}'}}]}
  - {route: [{destination: {host: '${host}'}}]}`),
			exchanges: []exchange{
				{path: "/short", status: 504, body: "upstream request timeout", atLeast: 150 * time.Millisecond, beyond: "timeouts"},
				{path: "/", backend: "slow", atLeast: 900 * time.Millisecond},
			},
		},
	}
}
