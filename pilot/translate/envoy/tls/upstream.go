package tls

import (
	"errors"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// systemBundle is where most systems keep their certificate authorities, for proxies that read files themselves.
const systemBundle = "/etc/ssl/certs/ca-certificates.crt"

// SystemRoots is the file name that stands for the operating system's certificate authorities.
const SystemRoots = "system"

// The bootstrap's clusters that hand out secrets beside the agent.
const (
	fileCluster     = "sds-files-grpc"
	externalCluster = "sds-external"
)

// ErrNoCertificate is returned for mutual TLS whose settings name no client certificate and key.
var ErrNoCertificate = errors.New("mode MUTUAL needs clientCertificate and privateKey, or credentialName")

// Client is what one cluster's TLS connections need. Mode DISABLE has no context.
type Client struct {
	// Mode, the names to accept (exactly, none means all) and the server name to ask for, may all differ from what the
	// rule says.
	Mode            networking.ClientTLSSettings_TLSmode
	SubjectAltNames []string
	SNI             string
	ALPN            []string
	// Files and credentials come from the rule.
	Certificate, Key, Roots   string
	CredentialName, RootsName string
	RevocationList            string
	InsecureSkipVerify        bool
	// FilesByAgent is set when the proxy has an agent of its own for files, NoAgent when it has none at all and must read
	// them itself.
	FilesByAgent, NoAgent bool
}

// Upstream makes the contexts of clusters. It holds what they have in common; it is immutable.
type Upstream struct {
	identity, roots []*tlsv3.SdsSecretConfig
	ads             *corev3.ConfigSource
}

// NewUpstream returns a maker of upstream contexts.
func NewUpstream() *Upstream {
	return &Upstream{
		identity: []*tlsv3.SdsSecretConfig{agentSecret("default", true)},
		roots:    []*tlsv3.SdsSecretConfig{agentSecret("ROOTCA", true)},
		ads: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			ResourceApiVersion:    corev3.ApiVersion_V3,
		},
	}
}

// Context returns the context of a client's connections (translation-l4 §2.8). The error is ErrNoCertificate.
func (u *Upstream) Context(c *view.Context, r *Client) (*tlsv3.UpstreamTlsContext, error) {
	common := &tlsv3.CommonTlsContext{AlpnProtocols: r.ALPN, TlsParams: u.parameters(c, r.Mode)}
	if r.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL {
		common.TlsCertificateSdsSecretConfigs = u.identity
		common.ValidationContextType = combined(accept(r.SubjectAltNames, c.Stock()), u.roots[0])
		return &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: r.SNI}, nil
	}
	if r.NoAgent && r.CredentialName == "" && r.RootsName == "" {
		return readByProxy(c, r, common)
	}
	if r.Mode == networking.ClientTLSSettings_MUTUAL {
		certificate, err := u.clientCertificate(r)
		if err != nil {
			return nil, err
		}
		common.TlsCertificateSdsSecretConfigs = []*tlsv3.SdsSecretConfig{certificate}
	}
	switch {
	case r.InsecureSkipVerify && r.CredentialName == "":
		common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{
			ValidationContext: &tlsv3.CertificateValidationContext{},
		}
	case !r.InsecureSkipVerify:
		names := accept(r.SubjectAltNames, c.Stock())
		if r.RevocationList != "" {
			names.Crl = filename(r.RevocationList)
		}
		common.ValidationContextType = combined(names, u.serverRoots(r))
	}
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: r.SNI}, nil
}

// readByProxy completes common with files that the proxy reads itself.
func readByProxy(c *view.Context, r *Client, common *tlsv3.CommonTlsContext) (*tlsv3.UpstreamTlsContext, error) {
	if r.Mode == networking.ClientTLSSettings_MUTUAL {
		if r.Certificate == "" || r.Key == "" {
			return nil, ErrNoCertificate
		}
		common.TlsCertificates = []*tlsv3.TlsCertificate{{CertificateChain: filename(r.Certificate), PrivateKey: filename(r.Key)}}
	}
	names := &tlsv3.CertificateValidationContext{}
	if !r.InsecureSkipVerify {
		names = accept(r.SubjectAltNames, c.Stock())
		names.TrustedCa = filename(r.Roots)
		if r.Roots == "" || r.Roots == SystemRoots {
			names.TrustedCa = filename(systemBundle)
		}
		if r.RevocationList != "" {
			names.Crl = filename(r.RevocationList)
		}
	}
	common.ValidationContextType = &tlsv3.CommonTlsContext_ValidationContext{ValidationContext: names}
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: common, Sni: r.SNI}, nil
}

func filename(path string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_Filename{Filename: path}}
}

func combined(names *tlsv3.CertificateValidationContext, roots *tlsv3.SdsSecretConfig) *tlsv3.CommonTlsContext_CombinedValidationContext {
	return &tlsv3.CommonTlsContext_CombinedValidationContext{
		CombinedValidationContext: &tlsv3.CommonTlsContext_CombinedCertificateValidationContext{
			DefaultValidationContext: names, ValidationContextSdsSecretConfig: roots,
		},
	}
}

func (u *Upstream) clientCertificate(r *Client) (*tlsv3.SdsSecretConfig, error) {
	if r.CredentialName != "" {
		return u.credential(r.CredentialName, ""), nil
	}
	if r.Certificate == "" || r.Key == "" {
		return nil, ErrNoCertificate
	}
	return fileSecret("file-cert:"+r.Certificate+"~"+r.Key, r.FilesByAgent), nil
}

func (u *Upstream) serverRoots(r *Client) *tlsv3.SdsSecretConfig {
	switch {
	case r.RootsName != "":
		return u.credential(r.RootsName, "")
	case r.CredentialName != "":
		return u.credential(r.CredentialName, "-cacert")
	case r.Roots == "":
		return fileSecret("file-root:"+SystemRoots, r.FilesByAgent)
	}
	return fileSecret("file-root:"+r.Roots, r.FilesByAgent)
}

// credential returns where the control plane's own secret comes from, or one of an SDS server beside the proxy.
func (u *Upstream) credential(name, suffix string) *tlsv3.SdsSecretConfig {
	if rest, ok := strings.CutPrefix(name, "sds://"); ok {
		out := agentSecret(rest+suffix, false)
		setCluster(out, externalCluster)
		return out
	}
	if !strings.Contains(name, "://") {
		name = "kubernetes://" + name
	}
	return &tlsv3.SdsSecretConfig{Name: name + suffix, SdsConfig: u.ads}
}

func fileSecret(name string, byAgent bool) *tlsv3.SdsSecretConfig {
	out := agentSecret(name, false)
	if byAgent {
		setCluster(out, fileCluster)
	}
	return out
}

// setCluster names another cluster in a secret made by agentSecret just before.
func setCluster(s *tlsv3.SdsSecretConfig, cluster string) {
	for _, g := range s.GetSdsConfig().GetApiConfigSource().GetGrpcServices() {
		g.GetEnvoyGrpc().ClusterName = cluster
	}
}

// Tunnel returns the context of HBONE tunnels to servers of the mesh's trust domains.
func (u *Upstream) Tunnel(c *view.Context) *tlsv3.UpstreamTlsContext {
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{
		AlpnProtocols: []string{"h2"}, TlsParams: tunnelParameters(c), TlsCertificateSdsSecretConfigs: u.identity,
		ValidationContextType: combined(tunnelPeers(c), u.roots[0]),
	}}
}

// accept matches a certificate that has one of the names, any certificate if there is none. Stock Envoys are given the
// form that is not deprecated.
func accept(names []string, stock bool) *tlsv3.CertificateValidationContext {
	out := &tlsv3.CertificateValidationContext{}
	for _, n := range names {
		switch {
		case !stock:
			//nolint:staticcheck // the form that proxies of this profile have always been sent
			out.MatchSubjectAltNames = append(out.MatchSubjectAltNames, &matcherv3.StringMatcher{
				MatchPattern: &matcherv3.StringMatcher_Exact{Exact: n},
			})
		case strings.Contains(n, "://"):
			out.MatchTypedSubjectAltNames = append(out.MatchTypedSubjectAltNames, exactNames(n)[:1]...)
		default:
			out.MatchTypedSubjectAltNames = append(out.MatchTypedSubjectAltNames, exactNames(n)...)
		}
	}
	return out
}

// parameters returns the protocol versions and ciphers. The mesh's defaults count for connections that leave the mesh.
func (u *Upstream) parameters(c *view.Context, mode networking.ClientTLSSettings_TLSmode) *tlsv3.TlsParameters {
	p := &tlsv3.TlsParameters{
		TlsMinimumProtocolVersion: tlsv3.TlsParameters_TLSv1_2, TlsMaximumProtocolVersion: tlsv3.TlsParameters_TLSv1_3,
	}
	if mode != networking.ClientTLSSettings_ISTIO_MUTUAL {
		defaults := c.Mesh().Config.GetTlsDefaults()
		p.EcdhCurves, p.CipherSuites = defaults.GetEcdhCurves(), defaults.GetCipherSuites()
		if defaults.GetMinProtocolVersion() == meshconfig.MeshConfig_TLSConfig_TLSV1_3 {
			p.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
		}
	}
	Comply(c.Settings().Raw["COMPLIANCE_POLICY"], p)
	return p
}

// Comply narrows p to what a compliance policy ("fips-140-2", "fips-140-3", "pqc" or none) allows.
func Comply(policy string, p *tlsv3.TlsParameters) {
	switch policy {
	case "fips-140-2":
		p.TlsMinimumProtocolVersion, p.TlsMaximumProtocolVersion = tlsv3.TlsParameters_TLSv1_2, tlsv3.TlsParameters_TLSv1_2
		allowed := []string{
			"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256",
			"ECDHE-ECDSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384",
		}
		kept := slices.DeleteFunc(slices.Clone(p.CipherSuites), func(s string) bool { return !slices.Contains(allowed, s) })
		if len(kept) == 0 {
			kept = allowed
		}
		p.CipherSuites, p.EcdhCurves = kept, nil
	case "fips-140-3":
		p.CompliancePolicies = []tlsv3.TlsParameters_CompliancePolicy{tlsv3.TlsParameters_FIPS_202205}
	case "pqc":
		p.TlsMinimumProtocolVersion = tlsv3.TlsParameters_TLSv1_3
		p.EcdhCurves = []string{"X25519MLKEM768"}
	}
}
