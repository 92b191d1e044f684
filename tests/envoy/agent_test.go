package envoy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

// authority issues the certificates of a mesh.
type authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{Organization: []string{"cluster.local"}},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{key, cert}
}

// issue returns the secret "default" of a workload with that identity.
func (a *authority) issue(t *testing.T, identity string) *tlsv3.Secret {
	t.Helper()
	id, err := url.Parse(identity)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), URIs: []*url.URL{id},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &tlsv3.Secret{Name: "default", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline("CERTIFICATE", der), PrivateKey: inline("EC PRIVATE KEY", private),
	}}}
}

// roots returns the secret "ROOTCA".
func (a *authority) roots() *tlsv3.Secret {
	return &tlsv3.Secret{Name: "ROOTCA", Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: inline("CERTIFICATE", a.cert.Raw),
	}}}
}

func inline(kind string, der []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{
		InlineBytes: pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}),
	}}
}

// agent hands out a workload's certificate, as the agent beside a sidecar does.
type agent struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer
	secrets map[string]*tlsv3.Secret
}

// StreamSecrets answers every request with the secrets that it names, once.
func (a *agent) StreamSecrets(stream secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	for n := 1; ; n++ {
		q, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case q.GetResponseNonce() != "":
			continue // an acknowledgement
		}
		answer := &discoveryv3.DiscoveryResponse{VersionInfo: "1", Nonce: fmt.Sprint(n), TypeUrl: q.GetTypeUrl()}
		for _, name := range q.GetResourceNames() {
			packed, err := anypb.New(a.secrets[name])
			if err != nil {
				return err
			}
			answer.Resources = append(answer.Resources, packed)
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// startAgent starts a workload's agent and returns the part of the sidecar's bootstrap that leads to it.
func startAgent(t *testing.T, a *authority, identity string) (bootstrap string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sds")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	secretv3.RegisterSecretDiscoveryServiceServer(server, &agent{secrets: map[string]*tlsv3.Secret{
		"default": a.issue(t, identity), "ROOTCA": a.roots(),
	}})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return fmt.Sprintf(`
static_resources:
  clusters:
  - name: sds-grpc
    type: STATIC
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment:
      cluster_name: sds-grpc
      endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: %s}}}}]}]
`, path)
}
