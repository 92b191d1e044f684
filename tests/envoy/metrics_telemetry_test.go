package envoy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// With any WebAssembly in the bootstrap metrics have exactly the names that dashboards know. What Telemetry objects say
// about metrics and their labels is so, and a label that no Envoy would understand is missing alone.
func TestMetricsByTelemetry(t *testing.T) {
	t.Parallel()
	m := newCounted(t, metricsMesh, fmt.Sprintf(`
bootstrap_extensions:
- name: envoy.bootstrap.wasm
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.wasm.v3.WasmService
    singleton: true
    config:
      name: noop
      root_id: noop
      failure_policy: FAIL_OPEN
      vm_config: {vm_id: noop, runtime: envoy.wasm.runtime.v8, code: {local: {inline_bytes: %s}}}
`, base64.StdEncoding.EncodeToString(harness.WasmModule())))
	shows(t, m.server, "", "istio_requests_total", "reporter=destination "+workloads2+identities+service+anHTTP)
	shows(t, m.server, "", "istio_response_bytes_count", "reporter=destination "+workloads2)
	write(t, m.dir, "telemetry.yaml", `apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: mesh, namespace: demo}
spec:
  metrics:
  - overrides:
    - {match: {metric: RESPONSE_SIZE, mode: SERVER}, disabled: true}
    - match: {metric: REQUEST_COUNT}
      tagOverrides:
        request_protocol: {operation: REMOVE}
        method: {value: "'nosuch' in request.headers ? 'a' : request.method"}
        reporter: {value: "'me'"}
        missing: {value: "request.headers['nosuch']"}
        nonsense: {value: "request.("}
        nofunction: {value: "nosuch(request.method)"}
        "no-label": {value: "'x'"}
`)
	// the counters of the listener before live on, so only what is new tells
	harness.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		if err := m.get(ctx); err != nil {
			return err
		}
		all, err := scrape(ctx, m.server, "")
		if err != nil {
			return err
		}
		return overridden(all)
	})
	before := valueOf(t, m.server, "istio_response_bytes_count")
	for range 5 {
		if err := m.get(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	shows(t, m.client, plainName, "istio_response_bytes_count", "reporter=source request_protocol=http "+workloads2)
	shows(t, m.client, plainName, "istio_requests_total", "reporter=me method=GET missing=unknown "+workloads2)
	if after := valueOf(t, m.server, "istio_response_bytes_count"); after != before {
		t.Errorf("a metric that is off counts on: %s, then %s", before, after)
	}
	m.unforged(t)
}

// overridden fails until a series shows what the Telemetry object says.
func overridden(all []series) error {
	for _, s := range all {
		if s.name != "istio_requests_total" || s.labels["reporter"] != "me" {
			continue
		}
		if wrong := s.differs("method=GET missing=unknown response_code=200"); wrong != "" {
			return fmt.Errorf("wrong labels: %s", wrong)
		}
		for _, gone := range []string{"request_protocol", "nonsense", "nofunction", "no_label", "no-label"} {
			if _, there := s.labels[gone]; there {
				return fmt.Errorf("label %s is there", gone)
			}
		}
		return nil
	}
	return errors.New("no series is as the Telemetry object says")
}

func valueOf(t *testing.T, e *harness.Envoy, name string) string {
	t.Helper()
	all, err := scrape(context.Background(), e, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		if s.name == name {
			return s.value
		}
	}
	t.Fatalf("no %s", name)
	return ""
}
