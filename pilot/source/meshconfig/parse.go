// Package meshconfig reads the mesh-wide configuration: built-in defaults, then each source's YAML on top.
package meshconfig

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// Defaults returns the mesh configuration of a process that was given none.
func Defaults() *mesh.MeshConfig {
	return &mesh.MeshConfig{
		ProxyListenPort: 15001, ProxyInboundListenPort: 15006,
		ConnectTimeout:           durationpb.New(10 * time.Second),
		ProtocolDetectionTimeout: durationpb.New(0),
		DnsRefreshRate:           durationpb.New(time.Minute),
		IngressService:           "istio-ingressgateway", IngressClass: "istio", IngressControllerMode: mesh.MeshConfig_STRICT,
		EnableTracing: true, AccessLogEncoding: mesh.MeshConfig_TEXT,
		TrustDomain: "cluster.local", RootNamespace: "istio-system",
		EnableAutoMtls: wrapperspb.Bool(true), EnablePrometheusMerge: wrapperspb.Bool(true),
		OutboundTrafficPolicy:  &mesh.MeshConfig_OutboundTrafficPolicy{Mode: mesh.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY},
		InboundTrafficPolicy:   &mesh.MeshConfig_InboundTrafficPolicy{Mode: mesh.MeshConfig_InboundTrafficPolicy_PASSTHROUGH},
		LocalityLbSetting:      defaultLocality(),
		DefaultServiceExportTo: []string{"*"}, DefaultVirtualServiceExportTo: []string{"*"}, DefaultDestinationRuleExportTo: []string{"*"},
		H2UpgradePolicy:    mesh.MeshConfig_DO_NOT_UPGRADE,
		DefaultConfig:      defaultProxyConfig(),
		DefaultProviders:   &mesh.MeshConfig_DefaultProviders{},
		ExtensionProviders: defaultProviders(),
	}
}

func defaultLocality() *networking.LocalityLoadBalancerSetting {
	return &networking.LocalityLoadBalancerSetting{Enabled: wrapperspb.Bool(true)}
}

func defaultProxyConfig() *mesh.ProxyConfig {
	return &mesh.ProxyConfig{
		ConfigPath: "./etc/istio/proxy", BinaryPath: "/usr/local/bin/envoy",
		ClusterName:   &mesh.ProxyConfig_ServiceCluster{ServiceCluster: "istio-proxy"},
		DrainDuration: durationpb.New(45 * time.Second), TerminationDrainDuration: durationpb.New(5 * time.Second),
		ProxyAdminPort: 15000, ControlPlaneAuthPolicy: mesh.AuthenticationPolicy_MUTUAL_TLS,
		DiscoveryAddress: "istiod.istio-system.svc:15012", StatNameLength: 189, StatusPort: 15020,
	}
}

func defaultProviders() []*mesh.MeshConfig_ExtensionProvider {
	return []*mesh.MeshConfig_ExtensionProvider{
		{Name: "prometheus", Provider: &mesh.MeshConfig_ExtensionProvider_Prometheus{Prometheus: &mesh.MeshConfig_ExtensionProvider_PrometheusMetricsProvider{}}},
		{Name: "stackdriver", Provider: &mesh.MeshConfig_ExtensionProvider_Stackdriver{Stackdriver: &mesh.MeshConfig_ExtensionProvider_StackdriverProvider{}}},
		{Name: "envoy", Provider: &mesh.MeshConfig_ExtensionProvider_EnvoyFileAccessLog{
			EnvoyFileAccessLog: &mesh.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider{Path: "/dev/stdout"},
		}},
	}
}

// Parse returns the mesh configuration that the YAML texts give, each applied onto the one before, the first onto the
// defaults. An unknown field or a value out of range is an error that names it.
func Parse(texts ...[]byte) (*model.Mesh, error) {
	config := Defaults()
	for _, text := range texts {
		if err := apply(config, text); err != nil {
			return nil, fmt.Errorf("mesh configuration: %w", err)
		}
	}
	if err := Validate(config); err != nil {
		return nil, fmt.Errorf("mesh configuration: %w", err)
	}
	return New(config, nil), nil
}

// New makes the model's form of a configuration.
func New(config *mesh.MeshConfig, networks *mesh.MeshNetworks) *model.Mesh {
	if networks == nil {
		networks = &mesh.MeshNetworks{}
	}
	return &model.Mesh{
		Config: config, Networks: networks,
		DefaultServiceExportTo:         config.GetDefaultServiceExportTo(),
		DefaultVirtualServiceExportTo:  config.GetDefaultVirtualServiceExportTo(),
		DefaultDestinationRuleExportTo: config.GetDefaultDestinationRuleExportTo(),
	}
}

// ParseNetworks returns the mesh networks of a YAML text.
func ParseNetworks(text []byte) (*mesh.MeshNetworks, error) {
	out := &mesh.MeshNetworks{}
	if err := strict(text, out); err != nil {
		return nil, fmt.Errorf("mesh networks: %w", err)
	}
	return out, nil
}

func strict(text []byte, into proto.Message) error {
	js, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	if string(js) == "null" {
		return nil
	}
	return protojson.Unmarshal(js, into)
}

// apply puts the fields present in text onto config.
func apply(config *mesh.MeshConfig, text []byte) error {
	given := &mesh.MeshConfig{}
	if err := strict(text, given); err != nil {
		return err
	}
	var present map[string]any
	if err := yaml.Unmarshal(text, &present); err != nil {
		return err
	}
	into, from := config.ProtoReflect(), given.ProtoReflect()
	fields := from.Descriptor().Fields()
	for key := range present {
		fd := fields.ByJSONName(key)
		if fd == nil {
			fd = fields.ByTextName(key)
		}
		if fd == nil {
			return fmt.Errorf("unknown field %q", key)
		}
		switch fd.JSONName() {
		case "defaultConfig":
			applyProxyConfig(config.DefaultConfig, given.DefaultConfig)
		case "defaultProviders":
			mergeFields(config.DefaultProviders.ProtoReflect(), given.DefaultProviders.ProtoReflect())
		case "extensionProviders":
			config.ExtensionProviders = mergeProviders(config.ExtensionProviders, given.ExtensionProviders)
		case "trustDomainAliases":
			config.TrustDomainAliases = append(config.TrustDomainAliases, given.TrustDomainAliases...)
			slices.Sort(config.TrustDomainAliases)
			config.TrustDomainAliases = slices.Compact(config.TrustDomainAliases)
		default:
			if from.Has(fd) {
				into.Set(fd, from.Get(fd))
			} else {
				into.Clear(fd)
			}
		}
	}
	return nil
}

// mergeFields sets in into every field that from has.
func mergeFields(into, from protoreflect.Message) {
	if !from.IsValid() {
		return
	}
	from.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		into.Set(fd, v)
		return true
	})
}

// applyProxyConfig merges field by field; proxyMetadata key by key and proxyHeaders field by field.
func applyProxyConfig(into, from *mesh.ProxyConfig) {
	if from == nil {
		return
	}
	metadata, headers := into.ProxyMetadata, into.ProxyHeaders
	mergeFields(into.ProtoReflect(), from.ProtoReflect())
	if len(metadata) > 0 && len(from.ProxyMetadata) > 0 {
		both := make(map[string]string, len(metadata)+len(from.ProxyMetadata))
		for _, m := range []map[string]string{metadata, from.ProxyMetadata} {
			for k, v := range m {
				both[k] = v
			}
		}
		into.ProxyMetadata = both
	}
	if headers != nil && from.ProxyHeaders != nil {
		mergeFields(headers.ProtoReflect(), from.ProxyHeaders.ProtoReflect())
		into.ProxyHeaders = headers
	}
}

func mergeProviders(old, more []*mesh.MeshConfig_ExtensionProvider) []*mesh.MeshConfig_ExtensionProvider {
	out := slices.Clone(old)
	for _, p := range more {
		i := slices.IndexFunc(out, func(o *mesh.MeshConfig_ExtensionProvider) bool { return o.GetName() == p.GetName() })
		if i >= 0 {
			out[i] = p
		} else {
			out = append(out, p)
		}
	}
	return out
}

// Validate returns what is wrong with a configuration.
func Validate(c *mesh.MeshConfig) error {
	var errs []error
	if t := c.GetConnectTimeout(); t != nil && (t.AsDuration() < time.Millisecond || t.AsDuration() > time.Hour) {
		errs = append(errs, fmt.Errorf("connectTimeout: %v is not between 1ms and 1h", t.AsDuration()))
	}
	for name, p := range map[string]int32{"proxyListenPort": c.GetProxyListenPort(), "proxyInboundListenPort": c.GetProxyInboundListenPort(), "proxyHttpPort": c.GetProxyHttpPort()} {
		if p < 0 || p > 65535 {
			errs = append(errs, fmt.Errorf("%s: %d is not a port", name, p))
		}
	}
	if c.GetTrustDomain() == "" {
		errs = append(errs, errors.New("trustDomain: must not be empty"))
	}
	return errors.Join(errs...)
}
