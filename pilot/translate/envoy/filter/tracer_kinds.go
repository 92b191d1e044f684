package filter

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	detectorsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/resource_detectors/v3"
	samplersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/tracers/opentelemetry/samplers/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
)

// The defaults of Dynatrace's sampler.
const (
	rootSpansPerMinute = 1000
	samplingPath       = "api/v2/samplingConfiguration"
)

// skyWalking reports to an analysis platform's collector over gRPC.
func skyWalking(p *meshconfig.MeshConfig_ExtensionProvider_SkyWalkingTracingProvider) *tracev3.SkyWalkingConfig {
	cluster, host := ProviderCluster(p.GetService(), p.GetPort())
	out := &tracev3.SkyWalkingConfig{GrpcService: &corev3.GrpcService{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
		EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: cluster, Authority: host},
	}}}
	if token := p.GetAccessToken(); token != "" {
		out.ClientConfig = &tracev3.ClientConfig{BackendTokenSpecifier: &tracev3.ClientConfig_BackendToken{BackendToken: token}}
	}
	return out
}

// detectors find out what the traces' resource is.
func (s *Set) detectors(p *meshconfig.MeshConfig_ExtensionProvider_ResourceDetectors) []*corev3.TypedExtensionConfig {
	const prefix = "envoy.tracers.opentelemetry.resource_detectors."
	var out []*corev3.TypedExtensionConfig
	if p.GetEnvironment() != nil {
		out = append(out, &corev3.TypedExtensionConfig{
			Name: prefix + "environment", TypedConfig: s.Pack(&detectorsv3.EnvironmentResourceDetectorConfig{}),
		})
	}
	if p.GetDynatrace() != nil {
		out = append(out, &corev3.TypedExtensionConfig{
			Name: prefix + "dynatrace", TypedConfig: s.Pack(&detectorsv3.DynatraceResourceDetectorConfig{}),
		})
	}
	return out
}

// sampler returns the provider's own sampler. It reports false for one that does not know whom to ask.
func (s *Set) sampler(p *meshconfig.MeshConfig_ExtensionProvider_OpenTelemetryTracingProvider) (*corev3.TypedExtensionConfig, bool) {
	d := p.GetDynatraceSampler()
	if d == nil {
		return nil, true
	}
	service, port, http, path := p.GetService(), p.GetPort(), p.GetHttp(), samplingPath
	if own := d.GetHttpService(); own != nil {
		service, port, http, path = own.GetService(), own.GetPort(), own.GetHttp(), own.GetHttp().GetPath()
	}
	if http == nil {
		return nil, false
	}
	cluster, host := ProviderCluster(service, port)
	c := &samplersv3.DynatraceSamplerConfig{
		Tenant: d.GetTenant(), ClusterId: d.GetClusterId(), RootSpansPerMinute: d.GetRootSpansPerMinute(),
		HttpService: &corev3.HttpService{
			HttpUri:             httpURI(host+"/"+strings.TrimPrefix(path, "/"), cluster, http.GetTimeout()),
			RequestHeadersToAdd: providerHeaders(http.GetHeaders()),
		},
	}
	if c.GetRootSpansPerMinute() == 0 {
		c.RootSpansPerMinute = rootSpansPerMinute
	}
	return &corev3.TypedExtensionConfig{Name: "envoy.tracers.opentelemetry.samplers.dynatrace", TypedConfig: s.Pack(c)}, true
}

// initialMetadata are the headers of a gRPC provider's calls.
func initialMetadata(list []*meshconfig.MeshConfig_ExtensionProvider_HttpHeader) []*corev3.HeaderValue {
	var out []*corev3.HeaderValue
	for _, h := range list {
		out = append(out, &corev3.HeaderValue{Key: h.GetName(), Value: format.Header(h.GetValue())})
	}
	return out
}
