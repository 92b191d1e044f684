package meshconfig

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
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
		DefaultServiceExportTo: []string{"*"}, DefaultVirtualServiceExportTo: []string{"*"},
		DefaultDestinationRuleExportTo: []string{"*"},
		H2UpgradePolicy:                mesh.MeshConfig_DO_NOT_UPGRADE,
		DefaultConfig:                  defaultProxyConfig(),
		DefaultProviders:               &mesh.MeshConfig_DefaultProviders{},
		ExtensionProviders:             defaultProviders(),
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
		{Name: "prometheus", Provider: &mesh.MeshConfig_ExtensionProvider_Prometheus{
			Prometheus: &mesh.MeshConfig_ExtensionProvider_PrometheusMetricsProvider{},
		}},
		{Name: "stackdriver", Provider: &mesh.MeshConfig_ExtensionProvider_Stackdriver{
			Stackdriver: &mesh.MeshConfig_ExtensionProvider_StackdriverProvider{},
		}},
		{Name: "envoy", Provider: &mesh.MeshConfig_ExtensionProvider_EnvoyFileAccessLog{
			EnvoyFileAccessLog: &mesh.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider{Path: "/dev/stdout"},
		}},
	}
}
