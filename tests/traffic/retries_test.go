package traffic

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// failing answers that many requests with 503; 0 means all.
func failing(n int) harness.Behaviour {
	return harness.Behaviour{Status: http.StatusServiceUnavailable, Failures: n}
}

// requests returns a check that backends get exactly so many requests.
func requests(want map[string]int64) func(*testing.T, *run) {
	return func(t *testing.T, r *run) {
		// A request that was given up may still be on its way.
		harness.Eventually(t, patience, func(context.Context) error {
			for name, n := range want {
				if got := r.backends[name].Requests(); got != n {
					return fmt.Errorf("%s got %d requests, want %d", name, got, n)
				}
			}
			return nil
		})
	}
}

// retries are scenarios about requests that are sent again.
func retries() []scenario {
	return []scenario{
		{
			name: "retry-status", beyond: "what failing backends answer, and retries", backends: []backend{{"twice", failing(2)}, {"always", failing(0)}, {"once", failing(1)}},
			objects: own("twice", "always", "once") + subsets("twice", "always", "once") + routed(`
  - {match: [{uri: {prefix: /twice}}], retries: {attempts: 3, retryOn: 5xx, perTryTimeout: 5s}, route: [`+to("twice")+`]}
  - {match: [{uri: {prefix: /always}}], retries: {attempts: 3, retryOn: "503,gateway-error"}, route: [`+to("always")+`]}
  - {match: [{uri: {prefix: /once}}], retries: {attempts: 0}, route: [`+to("once")+`]}`),
			exchanges: []exchange{
				{path: "/twice", backend: "twice", seen: headers{"x-envoy-attempt-count": "3"}},
				{path: "/always", status: 503},
				{path: "/once", status: 503},
			},
			then: requests(map[string]int64{"twice": 3, "always": 4, "once": 1}),
		},
		{
			// What is not listed in retryOn is not retried; by default only what is safe is.
			name: "retry-not", beyond: "what failing backends answer, and retries", backends: []backend{{"listed", harness.Behaviour{Status: 500, Failures: 1}}, {"default", harness.Behaviour{Status: 500, Failures: 1}}},
			objects: own("listed", "default") + subsets("listed", "default") + routed(`
  - {match: [{uri: {prefix: /listed}}], retries: {attempts: 3, retryOn: "reset,503"}, route: [`+to("listed")+`]}
  - {route: [`+to("default")+`]}`),
			exchanges: []exchange{{path: "/listed", status: 500}, {path: "/default", status: 500}},
			then:      requests(map[string]int64{"listed": 1, "default": 1}),
		},
		{
			name: "retry-reset", beyond: "what failing backends answer, and retries", backends: []backend{{"twice", harness.Behaviour{Abort: true, Failures: 2}}, {"once", harness.Behaviour{Abort: true, Failures: 1}}},
			objects: own("twice", "once") + subsets("twice", "once") + routed(`
  - {match: [{uri: {prefix: /retried}}], retries: {attempts: 2, retryOn: reset}, route: [`+to("twice")+`]}
  - {route: [`+to("once")+`]}`),
			exchanges: []exchange{{path: "/retried", backend: "twice"}, {path: "/default", status: 503, body: "reset reason: connection termination"}},
			then:      requests(map[string]int64{"twice": 3, "once": 1}),
		},
		{
			name: "retry-timeout", beyond: "timeouts", backends: []backend{{"slow", harness.Behaviour{Delay: 3 * time.Second}}},
			objects: own("slow") + routed(`
  - {retries: {attempts: 2, retryOn: 5xx, perTryTimeout: 0.2s}, route: [{destination: {host: '${host}'}}]}`),
			exchanges: []exchange{{status: 504, atLeast: 550 * time.Millisecond}},
			then:      requests(map[string]int64{"slow": 3}),
		},
		{
			name: "retry-elsewhere", beyond: "what failing backends answer, and retries", backends: []backend{{"good", harness.Behaviour{}}, {"bad", failing(0)}},
			objects: own("good", "bad") + rule("    loadBalancer: {simple: ROUND_ROBIN}") + routed(`
  - {retries: {attempts: 1, retryOn: "503"}, route: [{destination: {host: '${host}'}}]}`),
			then: func(t *testing.T, r *run) {
				const n = 20
				if c := r.count(t, n, exchange{}); c["good"] != n {
					t.Errorf("answers: %v", c)
				}
				between(t, "requests that failed first", int(r.backends["bad"].Requests()), n/4, n)
			},
		},
	}
}
