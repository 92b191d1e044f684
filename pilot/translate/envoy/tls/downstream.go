package tls

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// agentCluster is the bootstrap's cluster of the agent that hands out certificates.
const agentCluster = "sds-grpc"

// agentSecret returns where a secret comes from. Secrets of the workload's own identity hold the listener back until
// they are there; a missing file does so for Envoy's usual time only.
func agentSecret(name string, wait bool) *tlsv3.SdsSecretConfig {
	src := &corev3.ConfigSource{
		ConfigSourceSpecifier: &corev3.ConfigSource_ApiConfigSource{ApiConfigSource: &corev3.ApiConfigSource{
			ApiType:                   corev3.ApiConfigSource_GRPC,
			SetNodeOnFirstMessageOnly: true,
			TransportApiVersion:       corev3.ApiVersion_V3,
			GrpcServices: []*corev3.GrpcService{{TargetSpecifier: &corev3.GrpcService_EnvoyGrpc_{
				EnvoyGrpc: &corev3.GrpcService_EnvoyGrpc{ClusterName: agentCluster},
			}}},
		}},
		ResourceApiVersion: corev3.ApiVersion_V3,
	}
	if wait {
		src.InitialFetchTimeout = durationpb.New(0)
	}
	return &tlsv3.SdsSecretConfig{Name: name, SdsConfig: src}
}

// serverCiphers are the ciphers that mesh servers accept unless the mesh configuration names others.
func serverCiphers() []string {
	return []string{
		"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-AES128-GCM-SHA256",
		"ECDHE-RSA-AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-GCM-SHA256",
	}
}

// Downstream returns the context in which an inbound chain terminates mutual TLS of the mesh, with the protocols that
// the server offers (translation-l4 §5.3).
func Downstream(c *view.Context, alpn []string) *tlsv3.DownstreamTlsContext {
	mesh := c.Mesh().Config
	params := &tlsv3.TlsParameters{
		CipherSuites:              serverCiphers(),
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2,
		TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}
	if own := mesh.GetMeshMTLS().GetCipherSuites(); len(own) > 0 {
		params.CipherSuites = own
	}
	if mesh.GetMeshMTLS().GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3 {
		params.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
	}
	certificate, root := serverSecrets(c)
	return &tlsv3.DownstreamTlsContext{
		RequireClientCertificate: wrapperspb.Bool(true),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols:                  alpn,
			TlsParams:                      params,
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{certificate},
			ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{
				CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
					DefaultValidationContext:         clientNames(mesh, c.Stock()),
					ValidationContextSdsSecretConfig: root,
				},
			},
		},
	}
}

// TunnelDownstream returns the context in which HBONE tunnels end: of identities of the mesh's trust domains.
func TunnelDownstream(c *view.Context) *tlsv3.DownstreamTlsContext {
	certificate, root := serverSecrets(c)
	return &tlsv3.DownstreamTlsContext{
		RequireClientCertificate: wrapperspb.Bool(true),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols: []string{"h2"}, TlsParams: tunnelParameters(c), TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{certificate},
			ValidationContextType: combined(tunnelPeers(c), root),
		},
	}
}

func tunnelParameters(c *view.Context) *tlsv3.TlsParameters {
	params := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_3, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}
	Comply(c.Settings().Raw["COMPLIANCE_POLICY"], params)
	return params
}

// tunnelPeers accepts the identities of the mesh's trust domains, or all if that is switched off.
func tunnelPeers(c *view.Context) *tlsv3.CertificateValidationContext {
	if c.Settings().Raw["PILOT_SKIP_VALIDATE_TRUST_DOMAIN"] == "true" {
		return &tlsv3.CertificateValidationContext{}
	}
	return clientNames(c.Mesh().Config, true)
}

// serverSecrets returns the certificate and the roots: files that the proxy's metadata names, or its mesh identity.
func serverSecrets(c *view.Context) (certificate, root *tlsv3.SdsSecretConfig) {
	certificate, root = agentSecret("default", true), agentSecret("ROOTCA", true)
	if chain, key := c.Meta("TLS_SERVER_CERT_CHAIN"), c.Meta("TLS_SERVER_KEY"); chain != "" && key != "" {
		certificate = agentSecret("file-cert:"+chain+"~"+key, false)
	}
	if ca := c.Meta("TLS_SERVER_ROOT_CERT"); ca != "" {
		root = agentSecret("file-root:"+ca, false)
	}
	return certificate, root
}

// clientNames accepts clients of the mesh's trust domains. A stock Envoy is given the form that is not deprecated.
func clientNames(mesh *meshconfig.MeshConfig, stock bool) *tlsv3.CertificateValidationContext {
	out := &tlsv3.CertificateValidationContext{}
	for _, td := range trustDomains(mesh) {
		m := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Prefix{Prefix: "spiffe://" + td + "/"}}
		if stock {
			out.MatchTypedSubjectAltNames = append(out.MatchTypedSubjectAltNames, &tlsv3.SubjectAltNameMatcher{
				SanType: tlsv3.SubjectAltNameMatcher_URI, Matcher: m,
			})
		} else {
			//nolint:staticcheck // the form that proxies of this profile have always been sent
			out.MatchSubjectAltNames = append(out.MatchSubjectAltNames, m)
		}
	}
	return out
}

// trustDomains returns the mesh's own trust domain, its aliases and those of further roots, each once.
func trustDomains(mesh *meshconfig.MeshConfig) []string {
	all := append([]string{mesh.GetTrustDomain()}, mesh.GetTrustDomainAliases()...)
	for _, ca := range mesh.GetCaCertificates() {
		all = append(all, ca.GetTrustDomains()...)
	}
	seen := map[string]bool{}
	out := make([]string, 0, len(all))
	for _, td := range all {
		if td != "" && !seen[td] {
			seen[td] = true
			out = append(out, td)
		}
	}
	return out
}

// Ingress returns the context of a Sidecar ingress listener that terminates TLS by itself, nil for modes that do not.
func Ingress(s *networking.ServerTLSSettings, alpn []string) *tlsv3.DownstreamTlsContext {
	mode := s.GetMode()
	if mode != networking.ServerTLSSettings_SIMPLE && mode != networking.ServerTLSSettings_MUTUAL {
		return nil
	}
	out := &tlsv3.DownstreamTlsContext{
		RequireClientCertificate: wrapperspb.Bool(mode == networking.ServerTLSSettings_MUTUAL),
		CommonTlsContext: &tlsv3.CommonTlsContext{
			AlpnProtocols: alpn,
			TlsCertificateSdsSecretConfigs: []*tlsv3.SdsSecretConfig{
				agentSecret("file-cert:"+s.GetServerCertificate()+"~"+s.GetPrivateKey(), false),
			},
		},
	}
	if mode == networking.ServerTLSSettings_MUTUAL {
		names := &tlsv3.CertificateValidationContext{}
		for _, san := range s.GetSubjectAltNames() {
			names.MatchTypedSubjectAltNames = append(names.MatchTypedSubjectAltNames, exactNames(san)...)
		}
		out.CommonTlsContext.ValidationContextType = &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext:         names,
				ValidationContextSdsSecretConfig: agentSecret("file-root:"+s.GetCaCertificates(), false),
			},
		}
	}
	return out
}

// exactNames matches one subject name in any form that a certificate may hold it.
func exactNames(san string) []*tlsv3.SubjectAltNameMatcher {
	m := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: san}}
	return []*tlsv3.SubjectAltNameMatcher{
		{SanType: tlsv3.SubjectAltNameMatcher_URI, Matcher: m}, {SanType: tlsv3.SubjectAltNameMatcher_DNS, Matcher: m},
	}
}
