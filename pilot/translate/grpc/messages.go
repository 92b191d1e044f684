package grpc

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// The names that gRPC libraries know things by.
const (
	nameFault   = "envoy.filters.http.fault"
	nameRouter  = "envoy.filters.http.router"
	nameSession = "envoy.filters.http.stateful_session"
	nameTLS     = "envoy.transport_sockets.tls"
)

// The certificate provider of the agent's bootstrap, and what it is asked for.
const (
	provider     = "default"
	identityName = "default"
	rootsName    = "ROOTCA"
)

// pack returns m in an Any, deterministically. It does not check Envoy's rules, which ask for fields that gRPC has no
// use for; what is packed here is not taken from users. An error says so wherever the Any is put in.
func pack(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return &anypb.Any{Value: []byte(err.Error())}
	}
	return out
}

func httpFilter(name string, config proto.Message) *hcmv3.HttpFilter {
	return &hcmv3.HttpFilter{Name: name, ConfigType: &hcmv3.HttpFilter_TypedConfig{TypedConfig: pack(config)}}
}

func ads() *corev3.ConfigSource {
	return &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}}}
}

func tlsSocket(context proto.Message) *corev3.TransportSocket {
	return &corev3.TransportSocket{Name: nameTLS, ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: pack(context)}}
}

// mutual returns the mesh's mutual TLS, with the rules that the peer's certificate is checked by. Old and new names of
// the same fields are both set: libraries read one or the other.
func mutual(peer *tlsv3.CertificateValidationContext) *tlsv3.CommonTlsContext {
	peer.CaCertificateProviderInstance = &tlsv3.CertificateProviderPluginInstance{InstanceName: provider, CertificateName: rootsName}
	//nolint:staticcheck // what older libraries read
	return &tlsv3.CommonTlsContext{
		TlsCertificateProviderInstance: &tlsv3.CertificateProviderPluginInstance{InstanceName: provider, CertificateName: identityName},
		TlsCertificateCertificateProviderInstance: &tlsv3.CommonTlsContext_CertificateProviderInstance{
			InstanceName: provider, CertificateName: identityName,
		},
		ValidationContextType: &tlsv3.CommonTlsContext_CombinedValidationContext{
			CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
				DefaultValidationContext: peer,
				ValidationContextCertificateProviderInstance: &tlsv3.CommonTlsContext_CertificateProviderInstance{
					InstanceName: provider, CertificateName: rootsName,
				},
			},
		},
	}
}
