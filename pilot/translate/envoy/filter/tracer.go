package filter

import (
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
)

// zipkinTimeout is how long a report to a Zipkin collector may take.
const zipkinTimeout = 5 * time.Second

// tracer returns a provider's tracer, nil for none that is known and can be reached, and the greatest length of a path tag, 0 for Envoy's own.
func (s *Set) tracer(p *meshconfig.MeshConfig_ExtensionProvider) (*tracev3.Tracing_Http, uint32) {
	make := func(name string, m proto.Message) *tracev3.Tracing_Http {
		return &tracev3.Tracing_Http{Name: name, ConfigType: &tracev3.Tracing_Http_TypedConfig{TypedConfig: s.Pack(m)}}
	}
	switch x := p.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		if s.reaches(x.Zipkin) {
			return make("envoy.tracers.zipkin", s.zipkin(x.Zipkin)), x.Zipkin.GetMaxTagLength()
		}
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		if !s.reaches(x.Datadog) {
			break
		}
		cluster, host := ProviderCluster(x.Datadog.GetService(), x.Datadog.GetPort())
		return make("envoy.tracers.datadog", &tracev3.DatadogConfig{
			CollectorCluster: cluster, CollectorHostname: host, ServiceName: s.serviceName(),
		}), x.Datadog.GetMaxTagLength()
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		if c := s.openTelemetry(x.Opentelemetry); c != nil && s.reaches(x.Opentelemetry) {
			return make("envoy.tracers.opentelemetry", c), x.Opentelemetry.GetMaxTagLength()
		}
	case *meshconfig.MeshConfig_ExtensionProvider_Skywalking:
		if s.reaches(x.Skywalking) {
			return make(nameSkyWalking, skyWalking(x.Skywalking)), 0
		}
	}
	return nil, 0
}

// serviceName is the workload's name in traces.
func (s *Set) serviceName() string {
	name, _ := s.c.Canonical()
	if name == "" {
		name = "istio-proxy"
	}
	return name + "." + s.c.ProxyNamespace()
}

func (s *Set) zipkin(p *meshconfig.MeshConfig_ExtensionProvider_ZipkinTracingProvider) *tracev3.ZipkinConfig {
	cluster, host := ProviderCluster(p.GetService(), p.GetPort())
	path := p.GetPath()
	if path == "" {
		path = "/api/v2/spans"
	}
	out := &tracev3.ZipkinConfig{
		CollectorEndpointVersion: tracev3.ZipkinConfig_HTTP_JSON,
		TraceId_128Bit:           !p.GetEnable_64BitTraceId(),
		SharedSpanContext:        wrapperspb.Bool(false),
		TraceContextOption:       tracev3.ZipkinConfig_TraceContextOption(p.GetTraceContextOption()),
	}
	if !s.atLeast(1, 29) {
		out.CollectorCluster, out.CollectorEndpoint, out.CollectorHostname = cluster, path, host
		return out
	}
	timeout := durationpb.New(zipkinTimeout)
	if p.GetTimeout() != nil {
		timeout = p.GetTimeout()
	}
	out.CollectorService = &corev3.HttpService{
		HttpUri: httpURI("http://"+host+path, cluster, timeout), RequestHeadersToAdd: providerHeaders(p.GetHeaders()),
	}
	return out
}

func httpURI(uri, cluster string, timeout *durationpb.Duration) *corev3.HttpUri {
	return &corev3.HttpUri{Uri: uri, HttpUpstreamType: &corev3.HttpUri_Cluster{Cluster: cluster}, Timeout: timeout}
}

func providerHeaders(list []*meshconfig.MeshConfig_ExtensionProvider_HttpHeader) []*corev3.HeaderValueOption {
	var out []*corev3.HeaderValueOption
	for _, h := range list {
		out = append(out, &corev3.HeaderValueOption{
			AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
			Header:       &corev3.HeaderValue{Key: h.GetName(), Value: format.Header(h.GetValue())},
		})
	}
	return out
}

func (s *Set) openTelemetry(p *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider) *tracev3.OpenTelemetryConfig {
	cluster, host := ProviderCluster(p.GetService(), p.GetPort())
	sampler, ok := s.sampler(p)
	if !ok {
		return nil
	}
	out := &tracev3.OpenTelemetryConfig{
		ServiceName: s.serviceName(), ResourceDetectors: s.detectors(p.GetResourceDetectors()), Sampler: sampler,
	}
	if h := p.GetHttp(); h != nil {
		out.HttpService = &corev3.HttpService{
			HttpUri:             httpURI("http://"+host+h.GetPath(), cluster, h.GetTimeout()),
			RequestHeadersToAdd: providerHeaders(h.GetHeaders()),
		}
		return out
	}
	out.GrpcService = &corev3.GrpcService{
		TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
			EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: host},
		},
		Timeout:         p.GetGrpc().GetTimeout(),
		InitialMetadata: initialMetadata(p.GetGrpc().GetInitialMetadata()),
	}
	return out
}
