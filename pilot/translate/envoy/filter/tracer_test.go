package filter

import (
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	samplersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/samplers/v3"
)

// TestTracers checks the tracers that differ from the others in how they are set up, and providers that cannot be had.
func TestTracers(t *testing.T) {
	t.Parallel()
	mesh := func(provider string) string {
		return "{defaultProviders: {tracing: [p]}, extensionProviders: [{name: p, " + provider + "}]}"
	}
	s, _ := fixture{mesh: mesh("skywalking: {service: z.example, port: 9411, accessToken: tok}")}.set(t)
	tr, _ := s.tracing(Outbound)
	sky := &tracev3.SkyWalkingConfig{}
	if err := tr.GetProvider().GetTypedConfig().UnmarshalTo(sky); err != nil {
		t.Fatal(err)
	}
	if sky.GetClientConfig().GetBackendToken() != "tok" || sky.GetGrpcService().GetEnvoyGrpc().GetClusterName() != "outbound|9411||z.example" || !tr.GetSpawnUpstreamSpan().GetValue() {
		t.Error(prototext.Format(tr))
	}
	s, _ = fixture{mesh: mesh("opentelemetry: {service: z.example, port: 9411, http: {path: /v1, timeout: 1s}, dynatraceSampler: {tenant: t, clusterId: 7}, resourceDetectors: {environment: {}}}")}.set(t)
	tr, _ = s.tracing(Outbound)
	otel, sampler := &tracev3.OpenTelemetryConfig{}, &samplersv3.DynatraceSamplerConfig{}
	if err := tr.GetProvider().GetTypedConfig().UnmarshalTo(otel); err != nil {
		t.Fatal(err)
	}
	if err := otel.GetSampler().GetTypedConfig().UnmarshalTo(sampler); err != nil {
		t.Fatal(err)
	}
	if sampler.GetRootSpansPerMinute() != rootSpansPerMinute || sampler.GetHttpService().GetHttpUri().GetUri() != "z.example/api/v2/samplingConfiguration" ||
		len(otel.GetResourceDetectors()) != 1 || tr.GetRandomSampling().GetValue() != 100 {
		t.Error(prototext.Format(sampler), prototext.Format(tr))
	}
	for _, provider := range []string{
		"skywalking: {service: gone.example, port: 1}", "zipkin: {service: z.example, port: 1}", "datadog: {service: gone.example, port: 1}",
		"lightstep: {service: z.example, port: 9411, accessToken: t}", "opentelemetry: {service: gone.example, port: 1}",
		"opentelemetry: {service: z.example, port: 9411, dynatraceSampler: {tenant: t, clusterId: 7}}",
	} {
		s, _ := fixture{mesh: mesh(provider)}.set(t)
		if tr, _ := s.tracing(Outbound); tr != nil {
			t.Errorf("%s: %s", provider, prototext.Format(tr))
		}
	}
	s, _ = fixture{mesh: mesh("zipkin: {service: z.example, port: 9411}"), telemetry: map[string]string{"shop/t": "{tracing: [{disableContextPropagation: true}]}"}}.set(t)
	if tr, _ := s.tracing(Inbound); !tr.GetNoContextPropagation() {
		t.Error("requests still carry the trace's context")
	}
}

// TestTunnelLogs checks that tunnels are logged only where something went wrong.
func TestTunnelLogs(t *testing.T) {
	t.Parallel()
	s, _ := fixture{mesh: "accessLogFile: /dev/stdout"}.set(t)
	if l := s.OriginateLog(); len(l) != 1 || l[0].GetFilter().GetResponseFlagFilter().GetFlags()[0] != "UF" {
		t.Error(l)
	}
	if l := s.TerminateLog(); len(l) != 1 || l[0].GetFilter().GetStatusCodeFilter().GetComparison().GetValue().GetDefaultValue() != 400 {
		t.Error(l)
	}
}
