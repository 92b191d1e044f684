package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"
)

// Authority issues certificates of one trust domain.
type Authority struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// NewAuthority returns an authority with a new key.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, SubjectKeyId: []byte{1}, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	cert, err := x509.ParseCertificate(der)
	must(t, err)
	return &Authority{key, cert}
}

// Roots is the authority's own certificate, in PEM.
func (a *Authority) Roots() []byte { return encoded("CERTIFICATE", a.cert.Raw) }

// Revocations is the authority's empty list of revoked certificates, in PEM.
func (a *Authority) Revocations(t testing.TB) []byte {
	t.Helper()
	der, err := x509.CreateRevocationList(rand.Reader, &x509.RevocationList{
		Number: big.NewInt(1), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(time.Hour),
	}, a.cert, a.key)
	must(t, err)
	return encoded("X509 CRL", der)
}

// Issue returns a certificate for an identity (a spiffe:// URI) and its key, in PEM.
func (a *Authority) Issue(t testing.TB, identity string) (chain, key []byte) {
	t.Helper()
	id, err := url.Parse(identity)
	must(t, err)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{id},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, private.Public(), a.key)
	must(t, err)
	encodedKey, err := x509.MarshalPKCS8PrivateKey(private)
	must(t, err)
	return encoded("CERTIFICATE", der), encoded("PRIVATE KEY", encodedKey)
}

func encoded(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// Secrets is what a proxy agent serves to its Envoy: the workload's certificate, also for those in files, and roots for
// every other name.
type Secrets struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer
	chain, key, roots []byte
	path              string
}

// workloadCertificate is the name of the workload's own certificate, as Istio's proxies ask for it.
const workloadCertificate = "default"

// NewSecrets serves secrets on a Unix socket as long as the test lasts.
func NewSecrets(t testing.TB, a *Authority, identity string) *Secrets {
	t.Helper()
	s := &Secrets{roots: a.Roots(), path: filepath.Join(t.TempDir(), "sds")}
	s.chain, s.key = a.Issue(t, identity)
	l, err := net.Listen("unix", s.path)
	must(t, err)
	server := grpc.NewServer()
	secretv3.RegisterSecretDiscoveryServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return s
}

// Bootstrap is the cluster that leads to the secrets, as EnvoyOptions.Bootstrap takes it.
func (s *Secrets) Bootstrap() string {
	return fmt.Sprintf(`static_resources:
  clusters:
  - name: sds-grpc
    type: STATIC
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
    load_assignment: {cluster_name: sds-grpc, endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: %s}}}}]}]}
`, s.path)
}

// StreamSecrets answers requests in the state-of-the-world protocol.
func (s *Secrets) StreamSecrets(stream secretv3.SecretDiscoveryService_StreamSecretsServer) error {
	sent := ""
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		names := strings.Join(r.GetResourceNames(), ",")
		if names == sent {
			continue
		}
		sent = names
		answer := &discoveryv3.DiscoveryResponse{TypeUrl: r.GetTypeUrl(), VersionInfo: "1", Nonce: names}
		for _, name := range r.GetResourceNames() {
			secret, err := anypb.New(s.secret(name))
			if err != nil {
				return err
			}
			answer.Resources = append(answer.Resources, secret)
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

func (s *Secrets) secret(name string) *tlsv3.Secret {
	if name == workloadCertificate || strings.HasPrefix(name, "file-cert:") {
		return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
			CertificateChain: inline(s.chain), PrivateKey: inline(s.key),
		}}}
	}
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{TrustedCa: inline(s.roots)}}}
}

func inline(b []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b}}
}
