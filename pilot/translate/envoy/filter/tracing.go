package filter

import (
	"slices"
	"strconv"
	"strings"

	tracev3 "github.com/envoyproxy/go-control-plane/envoy/config/trace/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	metadatav3 "github.com/envoyproxy/go-control-plane/envoy/type/metadata/v3"
	tracingv3 "github.com/envoyproxy/go-control-plane/envoy/type/tracing/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"
	api "istio.io/api/telemetry/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
)

// defaultSampling is the share of traces sampled when nobody says otherwise, in percent.
const defaultSampling = 1.0

// traceSpec is what the Telemetry objects say about tracing in one direction.
type traceSpec struct {
	provider *meshconfig.MeshConfig_ExtensionProvider
	off      bool
	sampling *float64
	tags     map[string]*api.Tracing_CustomTag
	istio    bool
	byID     bool // the request id decides about sampling
	hidden   bool // requests carry no context of the trace
}

// tracing returns the tracing block of a connection manager, nil for none, and whether the request id decides about
// sampling.
func (s *Set) tracing(d Direction) (t *hcmv3.HttpConnectionManager_Tracing, byID bool) {
	spec, some := s.traceSpec(d)
	if !some {
		// a stock Envoy is given no tracer by its bootstrap, so that tags without a provider have nowhere to go
		if !s.mesh.GetEnableTracing() || s.stock {
			return nil, true
		}
		spec = traceSpec{istio: true, byID: true}
	} else if spec.off || spec.provider == nil {
		return nil, spec.byID
	}
	provider, maxTag := (*tracev3.Tracing_Http)(nil), uint32(0)
	if spec.provider != nil {
		if provider, maxTag = s.tracer(spec.provider); provider == nil {
			return nil, spec.byID
		}
	}
	own := s.ProxyConfig().GetTracing()
	t = &hcmv3.HttpConnectionManager_Tracing{}
	sampling := s.sampling(own)
	if spec.sampling != nil {
		sampling = *spec.sampling
	}
	t.ClientSampling = &typev3.Percent{Value: 100}
	t.RandomSampling = &typev3.Percent{Value: sampling}
	t.OverallSampling = &typev3.Percent{Value: 100}
	if own.GetEnableIstioTags() != nil && !some {
		spec.istio = own.GetEnableIstioTags().GetValue()
	}
	t.CustomTags = s.tags(spec, own)
	t.Provider, t.MaxPathTagLength = provider, length(maxTag)
	if spec.provider.GetOpentelemetry().GetDynatraceSampler() != nil { // which decides by itself
		t.RandomSampling.Value = 100
	}
	if provider.GetName() == nameSkyWalking {
		t.SpawnUpstreamSpan = wrapperspb.Bool(true)
	}
	t.NoContextPropagation = spec.hidden && s.atLeast(1, 30)
	if t.MaxPathTagLength == nil {
		t.MaxPathTagLength = length(own.GetMaxPathTagLength())
	}
	return t, spec.byID
}

func length(n uint32) *wrapperspb.UInt32Value {
	if n == 0 {
		return nil
	}
	return wrapperspb.UInt32(n)
}

func (s *Set) sampling(own *meshconfig.Tracing) float64 {
	switch {
	case own.GetSampling() > 100:
		return defaultSampling
	case own.GetSampling() > 0:
		return own.GetSampling()
	}
	if v, err := strconv.ParseFloat(s.c.Settings().Raw["PILOT_TRACE_SAMPLING"], 64); err == nil && v >= 0 && v <= 100 {
		return v
	}
	return defaultSampling
}

// traceSpec merges the Telemetry objects; the second result is false when neither they nor default providers say
// anything.
func (s *Set) traceSpec(d Direction) (traceSpec, bool) {
	spec := traceSpec{istio: true, byID: true}
	inherited := s.mesh.GetDefaultProviders().GetTracing()
	some := len(inherited) > 0
	if some {
		spec.provider = s.provider(inherited[0])
	}
	for _, t := range s.telemetry().specs {
		for _, section := range t.GetTracing() {
			some = true
			if selects(section.GetMatch().GetMode(), d) {
				s.applyTracing(&spec, section)
			}
		}
	}
	return spec, some
}

func (s *Set) applyTracing(spec *traceSpec, section *api.Tracing) {
	if n := providerNames(section.GetProviders()); len(n) > 0 {
		spec.provider = s.provider(n[0])
	}
	if section.GetDisableSpanReporting() != nil {
		spec.off = section.GetDisableSpanReporting().GetValue()
	}
	if section.GetCustomTags() != nil {
		spec.tags = section.GetCustomTags()
	}
	if p := section.GetRandomSamplingPercentage(); p != nil {
		v := p.GetValue()
		spec.sampling = &v
	}
	if v := section.GetUseRequestIdForTraceSampling(); v != nil {
		spec.byID = v.GetValue()
	}
	if v := section.GetDisableContextPropagation(); v != nil {
		spec.hidden = v.GetValue()
	}
	if v := section.GetEnableIstioTags(); v != nil {
		spec.istio = v.GetValue()
	}
}

// tags returns all tags by name. Tags of Telemetry objects replace those of the proxy configuration.
func (s *Set) tags(spec traceSpec, own *meshconfig.Tracing) []*tracingv3.CustomTag {
	var out []*tracingv3.CustomTag
	if spec.istio {
		out = append(out, s.istioTags()...)
	}
	if spec.tags != nil {
		for name, t := range spec.tags {
			if tag := s.telemetryTag(name, t); tag != nil {
				out = append(out, tag)
			}
		}
	} else {
		for name, t := range own.GetCustomTags() {
			if tag := proxyTag(name, t); tag != nil {
				out = append(out, tag)
			}
		}
	}
	slices.SortFunc(out, func(a, b *tracingv3.CustomTag) int { return strings.Compare(a.Tag, b.Tag) })
	return out
}

// istioTags say who the workload is, and what dry-run policies would have done.
func (s *Set) istioTags() []*tracingv3.CustomTag {
	name, revision := s.c.Canonical()
	out := []*tracingv3.CustomTag{
		literal("istio.canonical_revision", revision, "latest"),
		literal("istio.canonical_service", name, "unknown"),
		literal("istio.mesh_id", s.c.Meta("MESH_ID"), "unknown"),
		literal("istio.namespace", s.c.ProxyNamespace(), "default"),
		literal("istio.cluster_id", s.c.ClusterID(), "unknown"),
	}
	for _, action := range [...]string{"allow", "deny"} {
		prefix := "istio.authorization.dry_run." + action + "_policy."
		key := "istio_dry_run_" + action + "_shadow_"
		out = append(out, rbacTag(prefix+"name", key+"effective_policy_id"), rbacTag(prefix+"result", key+"engine_result"))
	}
	return out
}

func literal(tag, value, missing string) *tracingv3.CustomTag {
	if value == "" {
		value = missing
	}
	return &tracingv3.CustomTag{
		Tag: tag, Type: &tracingv3.CustomTag_Literal_{Literal: &tracingv3.CustomTag_Literal{Value: value}},
	}
}

func rbacTag(tag, key string) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: tag, Type: &tracingv3.CustomTag_Metadata_{Metadata: &tracingv3.CustomTag_Metadata{
		Kind: &metadatav3.MetadataKind{Kind: &metadatav3.MetadataKind_Request_{Request: &metadatav3.MetadataKind_Request{}}},
		MetadataKey: &metadatav3.MetadataKey{
			Key: "envoy.filters.http.rbac",
			Path: []*metadatav3.MetadataKey_PathSegment{{
				Segment: &metadatav3.MetadataKey_PathSegment_Key{Key: key},
			}},
		},
	}}}
}

func (s *Set) telemetryTag(name string, t *api.Tracing_CustomTag) *tracingv3.CustomTag {
	switch x := t.GetType().(type) {
	case *api.Tracing_CustomTag_Literal:
		return literal(name, x.Literal.GetValue(), "")
	case *api.Tracing_CustomTag_Environment:
		return environmentTag(name, x.Environment.GetName(), x.Environment.GetDefaultValue())
	case *api.Tracing_CustomTag_Header:
		return headerTag(name, x.Header.GetName(), x.Header.GetDefaultValue())
	case *api.Tracing_CustomTag_Formatter:
		if s.atLeast(1, 29) {
			return &tracingv3.CustomTag{Tag: name, Type: &tracingv3.CustomTag_Value{Value: format.Header(x.Formatter.GetValue())}}
		}
	}
	return nil
}

func proxyTag(name string, t *meshconfig.Tracing_CustomTag) *tracingv3.CustomTag {
	switch x := t.GetType().(type) {
	case *meshconfig.Tracing_CustomTag_Literal:
		return literal(name, x.Literal.GetValue(), "")
	case *meshconfig.Tracing_CustomTag_Environment:
		return environmentTag(name, x.Environment.GetName(), x.Environment.GetDefaultValue())
	case *meshconfig.Tracing_CustomTag_Header:
		return headerTag(name, x.Header.GetName(), x.Header.GetDefaultValue())
	}
	return nil
}

func environmentTag(tag, name, missing string) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: tag, Type: &tracingv3.CustomTag_Environment_{
		Environment: &tracingv3.CustomTag_Environment{Name: name, DefaultValue: missing},
	}}
}

func headerTag(tag, name, missing string) *tracingv3.CustomTag {
	return &tracingv3.CustomTag{Tag: tag, Type: &tracingv3.CustomTag_RequestHeader{
		RequestHeader: &tracingv3.CustomTag_Header{Name: name, DefaultValue: missing},
	}}
}

// atLeast tells whether the proxy is of that version or later.
func (s *Set) atLeast(major, minor int) bool {
	v := s.c.Version()
	return v[0] > major || v[0] == major && v[1] >= minor
}
