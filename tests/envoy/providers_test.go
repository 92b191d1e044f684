package envoy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	planes "github.com/mizzen-mesh/mizzen/tests/plane"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// telemetryProviders are extension providers of all kinds; "-gone" ones name services that do not exist.
const telemetryProviders = `
extensionProviders:
- {name: file, envoyFileAccessLog: {path: /dev/null, logFormat: {text: "%REQ_WITHOUT_QUERY(:PATH)%\n"}}}
- {name: json, envoyFileAccessLog: {path: /dev/null, omitEmptyValues: true, logFormat: {labels: {code: "%RESPONSE_CODE%", bad: "%NOSUCH%"}}}}
- {name: http-als, envoyHttpAls: {service: demo/reviews.demo.svc.cluster.local, port: $PORT, additionalRequestHeadersToLog: [x-a], filterStateObjectsToLog: [a]}}
- {name: tcp-als, envoyTcpAls: {service: reviews.demo.svc.cluster.local, port: $PORT}}
- {name: otel-als, envoyOtelAls: {service: reviews.demo.svc.cluster.local, port: $PORT, logFormat: {text: "%PROTOCOL%", labels: {a: "%REQ(x)%"}}}}
- {name: als-gone, envoyHttpAls: {service: gone.example, port: 9000}}
- {name: otel-als-gone, envoyOtelAls: {service: gone.example, port: 9000}}
- {name: zipkin, zipkin: {service: reviews.demo.svc.cluster.local, port: $PORT, maxTagLength: 9}}
- {name: datadog, datadog: {service: reviews.demo.svc.cluster.local, port: $PORT}}
- {name: skywalking, skywalking: {service: reviews.demo.svc.cluster.local, port: $PORT, accessToken: t}}
- {name: otel-grpc, opentelemetry: {service: reviews.demo.svc.cluster.local, port: $PORT, resourceDetectors: {environment: {}, dynatrace: {}}, grpc: {timeout: 1s, initialMetadata: [{name: x-a, value: b}]}}}
- {name: otel-http, opentelemetry: {service: reviews.demo.svc.cluster.local, port: $PORT, http: {path: /v1/traces, timeout: 1s, headers: [{name: x-a, value: "50% off"}]}, dynatraceSampler: {tenant: t, clusterId: 7}}}
- {name: zipkin-gone, zipkin: {service: gone.example, port: 9411}}
- {name: datadog-gone, datadog: {service: gone.example, port: 8126}}
- {name: skywalking-gone, skywalking: {service: gone.example, port: 11800}}
- {name: otel-gone, opentelemetry: {service: gone.example, port: 4317}}
- {name: lightstep, lightstep: {service: reviews.demo.svc.cluster.local, port: $PORT, accessToken: t}}
`

// A stock Envoy accepts every kind of provider, and those whose service is not there harm nobody.
func TestEveryProviderIsAccepted(t *testing.T) {
	t.Parallel()
	harness.NeedTool(t, harness.EnvoyTool)
	dir, ports := prepared(t, 1)
	p := planes.Start(t, dir, func(o *server.Options) {
		mesh, err := meshconfig.Parse([]byte(strings.ReplaceAll(telemetryProviders, "$PORT", fmt.Sprint(ports.Service))))
		if err != nil {
			t.Fatal(err)
		}
		o.Mesh = mesh
	})
	t.Cleanup(p.Stop)
	m := startMesh(t, world.Options{Dir: dir, Versions: 1, Address: p.GRPC.String()}, ports)
	for i, c := range []struct{ logs, tracing, want string }{
		{"file", "zipkin", "envoy.tracers.zipkin"},
		{"json", "datadog", "envoy.tracers.datadog"},
		{"http-als", "skywalking", "envoy.tracers.skywalking"},
		{"tcp-als", "otel-grpc", "resource_detectors.dynatrace"},
		{"otel-als", "otel-http", "samplers.dynatrace"},
		{"als-gone", "zipkin-gone", ""},
		{"otel-als-gone", "datadog-gone", ""},
		{"file", "skywalking-gone", ""},
		{"file", "otel-gone", ""},
		{"file", "lightstep", ""},
	} {
		// the marker, a tag of traces and a filter of logs, tells when the configuration has arrived
		write(t, dir, "telemetry.yaml", fmt.Sprintf(`apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: mesh, namespace: demo}
spec:
  accessLogging:
  - {providers: [{name: %[1]s}, {name: json}], filter: {expression: "response.code == %[3]d"}}
  tracing:
  - providers: [{name: %[2]s}]
    randomSamplingPercentage: 12.5
    disableContextPropagation: true
    customTags:
      a: {literal: {value: x}}
      b: {environment: {name: HOME, defaultValue: y}}
      c: {header: {name: x-c, defaultValue: z}}
      d: {formatter: {value: "%%REQ(x-d)%%"}}
`, c.logs, c.tracing, 400+i))
		for _, e := range []*harness.Envoy{m.Caller, m.Sidecars[0]} {
			harness.Eventually(t, 20*time.Second, func(ctx context.Context) error {
				if err := e.NoRejections(ctx); err != nil {
					return err
				}
				dump, err := e.AdminGet(ctx, "/config_dump?resource=dynamic_listeners")
				if err != nil {
					return err
				}
				// the server's sidecar has no cluster of any service
				want := c.want
				if e != m.Caller {
					want = ""
				}
				if !bytes.Contains(dump, fmt.Appendf(nil, "response.code == %d", 400+i)) || !bytes.Contains(dump, []byte(want)) {
					return fmt.Errorf("%+v is not in force", c)
				}
				return nil
			})
		}
	}
	noRejections(t, m)
}

// A stock Envoy accepts every expression that is taken for one of CEL (pilot/translate/envoy/format).
func TestEveryExpressionIsAccepted(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../pilot/translate/envoy/format/testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := newCounted(t, metricsMesh, "")
	var tags strings.Builder
	expressions := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, e := range expressions {
		fmt.Fprintf(&tags, "        t%d: {value: %q}\n", i, e)
	}
	write(t, m.dir, "telemetry.yaml", "apiVersion: telemetry.istio.io/v1\nkind: Telemetry\nmetadata: {name: mesh, namespace: demo}\n"+
		"spec:\n  metrics:\n  - overrides:\n    - match: {metric: REQUEST_COUNT}\n      tagOverrides:\n"+tags.String())
	last := fmt.Sprintf("t%d", len(expressions)-1)
	harness.Eventually(t, 20*time.Second, func(ctx context.Context) error {
		if err := m.get(ctx); err != nil {
			return err
		}
		all, err := scrape(ctx, m.server, plainName)
		if err != nil {
			return err
		}
		for _, s := range all {
			if _, there := s.labels[last]; there {
				return nil
			}
		}
		return fmt.Errorf("no series has %s", last)
	})
	m.unforged(t)
}
