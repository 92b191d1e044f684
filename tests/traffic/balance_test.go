package traffic

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// localities returns a service whose endpoints are "backend: locality".
func localities(of map[string]string) string {
	var endpoints []string
	for _, b := range slices.Sorted(maps.Keys(of)) {
		endpoints = append(endpoints, at(b, "locality: "+of[b]))
	}
	return service("${host}", endpoints...)
}

// balance are scenarios about which endpoint of a service a request goes to.
func balance() []scenario {
	return []scenario{
		{
			name: "subsets", backends: called("a", "b", "c"),
			objects: service("${host}", at("a"), at("b"), strings.ReplaceAll(at("c"), "version: c", "version: a")) + subsets("a", "b", "empty") + routed(`
  - {match: [{uri: {prefix: /a}}], route: [`+to("a")+`]}
  - {match: [{uri: {prefix: /empty}}], route: [`+to("empty")+`]}
  - {match: [{uri: {prefix: /unknown}}], route: [`+to("unknown")+`]}
  - {route: [`+to("b")+`]}`),
			exchanges: []exchange{
				{backend: "b"},
				{path: "/empty", status: 503, body: "no healthy upstream"},
				{path: "/unknown", status: 503},
			},
			then: func(t *testing.T, r *run) {
				c := r.count(t, 60, exchange{path: "/a"})
				between(t, "a", c["a"], 5, 55)
				between(t, "a and c", c["a"]+c["c"], 60, 60)
			},
		},
		{
			name: "endpoint-weights", backends: called("light", "heavy"),
			objects: service("${host}", at("light", "weight: 1"), at("heavy", "weight: 4")),
			then: func(t *testing.T, r *run) {
				c := r.count(t, 300, exchange{})
				between(t, "one fifth", c["light"], 20, 110)
				between(t, "together", c["light"]+c["heavy"], 300, 300)
			},
		},
		{
			name: "ejection", beyond: "ejection of endpoints", backends: called("steady", "fickle"),
			objects: own("steady", "fickle") + rule(`
    loadBalancer: {simple: ROUND_ROBIN}
    outlierDetection: {consecutive5xxErrors: 3, interval: 0.1s, baseEjectionTime: 1s, maxEjectionPercent: 100}`) +
				routed(`
  - {retries: {attempts: 0}, route: [{destination: {host: '${host}'}}]}`),
			then: func(t *testing.T, r *run) {
				fickle := r.backends["fickle"]
				fickle.Set(failing(0))
				// Workers learn of an ejection a little after the third failure.
				r.eventually(t, 20, exchange{backend: "steady"})
				between(t, "failures until the ejection", int(fickle.Requests()), 3, 100)
				between(t, "ejections", r.stat(t, "", "outlier_detection.ejections_enforced_consecutive_5xx"), 1, 30)
				fickle.Set(harness.Behaviour{})
				harness.Eventually(t, patience, func(ctx context.Context) error { return r.check(ctx, exchange{backend: "fickle"}) })
			},
		},
	}
}

// stickiness are scenarios about requests that belong together.
func stickiness() []scenario {
	hashed := func(by string) string { return rule("    loadBalancer: {consistentHash: " + by + "}") }
	return []scenario{
		{
			name: "hash-header", backends: called("a", "b", "c"),
			objects: own("a", "b", "c") + hashed("{httpHeaderName: x-user}"),
			then: func(t *testing.T, r *run) {
				spreads(t, r, func(user int) exchange { return exchange{headers: headers{"x-user": strconv.Itoa(user)}} })
			},
		},
		{
			name: "hash-query", backends: called("a", "b", "c"),
			objects: own("a", "b", "c") + hashed("{httpQueryParameterName: user, maglev: {}}"),
			then: func(t *testing.T, r *run) {
				spreads(t, r, func(user int) exchange { return exchange{path: fmt.Sprintf("/%[1]d?user=%[1]d", user)} })
			},
		},
		{
			name: "hash-cookie", backends: called("a", "b", "c"),
			objects: own("a", "b", "c") + hashed("{httpCookie: {name: user, path: /p, ttl: 60s}}"),
			then: func(t *testing.T, r *run) {
				sticks(t, r, "user", func(c *http.Cookie) bool { return c.Path == "/p" && c.MaxAge == 60 })
			},
		},
		{
			name: "session-cookie", backends: called("a", "b", "c"),
			objects: labelled("istio.io/persistent-session: 'sid:/p'"),
			then: func(t *testing.T, r *run) {
				sticks(t, r, "sid", func(c *http.Cookie) bool { return c.Path == "/p" && c.MaxAge == 0 })
			},
		},
		{
			name: "session-header", backends: called("a", "b", "c"),
			objects: labelled("istio.io/persistent-session-header: x-session"),
			then: func(t *testing.T, r *run) {
				chosen := map[string]bool{}
				for range 15 {
					reply, err := r.do(t.Context(), exchange{})
					if err != nil {
						t.Fatal(err)
					}
					first := reply.Echo.Backend
					chosen[first] = true
					again := exchange{headers: headers{"x-session": reply.Header.Get("x-session")}}
					if c := r.count(t, 5, again); c[first] != 5 {
						t.Errorf("first %s, then %v", first, c)
					}
				}
				if len(chosen) < 2 {
					t.Errorf("15 clients all went to %v", chosen)
				}
			},
		},
	}
}

// labelled is the service of the scenario's host with a label and three backends.
func labelled(label string) string {
	return strings.Replace(own("a", "b", "c"), "namespace: demo}", "namespace: demo, labels: {"+label+"}}", 1)
}

// spreads fails the test unless each user's requests go to one backend, and those of all users together to all.
func spreads(t *testing.T, r *run, of func(user int) exchange) {
	t.Helper()
	chosen := map[string]bool{}
	for user := range 40 {
		c := r.count(t, 5, of(user))
		if len(c) != 1 {
			t.Errorf("user %d: %v", user, c)
		}
		for name := range c {
			chosen[name] = true
		}
	}
	if len(chosen) != len(r.backends) {
		t.Errorf("40 users went to %v", chosen)
	}
}

// sticks fails the test unless answers to requests without a cookie set one, and requests with it go where the first went.
func sticks(t *testing.T, r *run, name string, good func(*http.Cookie) bool) {
	t.Helper()
	chosen := map[string]bool{}
	for range 15 {
		reply, err := r.do(t.Context(), exchange{path: "/p/app", fresh: true})
		if err != nil {
			t.Fatal(err)
		}
		cookies := (&http.Response{Header: reply.Header}).Cookies()
		if len(cookies) != 1 || cookies[0].Name != name || !good(cookies[0]) {
			t.Fatalf("cookies %v", cookies)
		}
		first := reply.Echo.Backend
		chosen[first] = true
		again := exchange{path: "/p/app", headers: headers{"cookie": name + "=" + cookies[0].Value}}
		if c := r.count(t, 5, again); c[first] != 5 {
			t.Errorf("first %s, then %v", first, c)
		}
	}
	if len(chosen) < 2 {
		t.Errorf("15 clients all went to %v", chosen)
	}
}

// outliers ejects an endpoint after two errors, for longer than a test lasts.
const outliers = "outlierDetection: {consecutive5xxErrors: 2, interval: 0.1s, baseEjectionTime: 60s, maxEjectionPercent: 100}"

// everywhere is a service with endpoints in the proxies' zone west/west-1, in another zone of their region, and elsewhere.
func everywhere() string {
	return localities(map[string]string{"near": "west/west-1", "zone": "west/west-2", "far": "east/east-1"})
}

// failovers are scenarios about requests that go elsewhere only when what is preferred fails.
func failovers() []scenario {
	return []scenario{
		{
			name: "failover", beyond: "ejection of endpoints", backends: called("near", "zone", "far"),
			objects: everywhere() + rule("    "+outliers),
			then: func(t *testing.T, r *run) {
				if c := r.count(t, 30, exchange{}); c["near"] != 30 {
					t.Errorf("with all in health: %v", c)
				}
				r.backends["near"].Set(failing(0))
				r.eventually(t, 10, exchange{backend: "zone"})
				r.write(t, localities(map[string]string{"near": "west/west-1", "far": "east/east-1"})+rule("    "+outliers))
				r.eventually(t, 10, exchange{backend: "far"})
			},
		},
		{
			name: "failover-region", beyond: "ejection of endpoints", backends: called("near", "north", "east"),
			objects: localities(map[string]string{"near": "west/west-1", "north": "north/north-1", "east": "east/east-1"}) + rule("    "+outliers+`
    loadBalancer: {localityLbSetting: {failover: [{from: west, to: north}]}}`),
			then: func(t *testing.T, r *run) {
				if c := r.count(t, 30, exchange{}); c["near"] != 30 {
					t.Errorf("with all in health: %v", c)
				}
				r.backends["near"].Set(failing(0))
				r.eventually(t, 10, exchange{backend: "north"})
				r.backends["north"].Set(failing(0))
				r.eventually(t, 10, exchange{backend: "east"})
			},
		},
		{
			name: "failover-labels", beyond: "ejection of endpoints", backends: called("same", "other"),
			objects: service("${host}", strings.ReplaceAll(at("same"), "version: same", "app: caller"), at("other")) + rule("    "+outliers+`
    loadBalancer: {localityLbSetting: {failoverPriority: [app]}}`),
			then: func(t *testing.T, r *run) {
				if c := r.count(t, 30, exchange{}); c["same"] != 30 {
					t.Errorf("with all in health: %v", c)
				}
				r.backends["same"].Set(failing(0))
				r.eventually(t, 10, exchange{backend: "other"})
			},
		},
	}
}

// shares are scenarios about requests that localities share.
func shares() []scenario {
	return []scenario{
		{
			name: "distribute", backends: called("near", "zone", "far"),
			objects: everywhere() + rule(`
    loadBalancer: {localityLbSetting: {distribute: [{from: west/*, to: {west/west-2: 70, east/*: 30}}]}}`),
			then: func(t *testing.T, r *run) {
				c := r.count(t, 300, exchange{})
				between(t, "near", c["near"], 0, 0)
				between(t, "70 %", c["zone"], 150, 270)
				between(t, "together", c["zone"]+c["far"], 300, 300)
			},
		},
		{
			name: "local-off", backends: called("near", "far"),
			objects: localities(map[string]string{"near": "west/west-1", "far": "east/east-1"}) + rule("    "+outliers+`
    loadBalancer: {simple: ROUND_ROBIN, localityLbSetting: {enabled: false}}`),
			then: func(t *testing.T, r *run) {
				c := r.count(t, 40, exchange{})
				between(t, "near", c["near"], 10, 30)
				between(t, "together", c["near"]+c["far"], 40, 40)
			},
		},
	}
}
