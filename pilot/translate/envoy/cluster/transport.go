package cluster

import (
	"errors"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	proxyprotocolv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/proxy_protocol/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/tls"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// secured is what the connections of one cluster look like.
type secured struct {
	client *tls.Client // nil for plaintext
	// auto is set when mutual TLS was not asked for but is known to be possible for some endpoints.
	auto bool
}

// secure sets the transport sockets (translation-l4 §2.8).
func (j *job) secure(cl *clusterv3.Cluster, t *target, o *httpOptions) {
	s := j.security(t)
	if s.client != nil {
		if s.client.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL {
			s.client.ALPN = j.alpn(o, t.port.Protocol)
		} else {
			if o.kind == explicitH2 {
				s.client.ALPN = []string{"h2"}
			}
			autoNames(s.client, t, o)
		}
	}
	j.sockets(cl, t, s)
}

// sockets turns s into cl's transport sockets.
func (j *job) sockets(cl *clusterv3.Cluster, t *target, s secured) {
	var socket *corev3.TransportSocket
	if s.client != nil {
		if strings.Contains(s.client.SNI, "\x00") {
			j.err = errors.New("TLS: the server name has a null byte")
			return
		}
		context, err := j.tls.Context(j.c, s.client)
		if err != nil {
			j.err = fmt.Errorf("TLS: %w", err)
			return
		}
		socket = j.socket(nameTLS, context)
	}
	if j.c.KnowsHBONE() && (!isOriginalDst(cl) || socket == nil) && cl.GetClusterType() == nil {
		j.tunnelMatches(cl, t, s, socket)
		return
	}
	if socket != nil && s.auto && s.client.Mode == networking.ClientTLSSettings_ISTIO_MUTUAL && !isOriginalDst(cl) {
		cl.TransportSocketMatches = []*clusterv3.Cluster_TransportSocketMatch{
			{Name: "tlsMode-istio", Match: j.mutual, TransportSocket: j.proxyProtocol(t, socket)},
			j.plainMatch(t),
		}
		return
	}
	if socket == nil && t.policy.ProxyProtocol != nil {
		socket = j.rawSocket("raw_buffer")
	}
	cl.TransportSocket = j.proxyProtocol(t, socket)
}

// isOriginalDst tells whether cl connects to where its callers were going.
func isOriginalDst(cl *clusterv3.Cluster) bool {
	return cl.GetClusterType() == nil && cl.GetType() == clusterv3.Cluster_ORIGINAL_DST
}

func (j *job) plainMatch(t *target) *clusterv3.Cluster_TransportSocketMatch {
	if t.policy.ProxyProtocol == nil {
		return j.plain
	}
	return &clusterv3.Cluster_TransportSocketMatch{
		Name: j.plain.GetName(), Match: j.plain.GetMatch(), TransportSocket: j.proxyProtocol(t, j.raw),
	}
}

// proxyProtocol wraps inner if the policy wants the PROXY protocol.
func (j *job) proxyProtocol(t *target, inner *corev3.TransportSocket) *corev3.TransportSocket {
	if t.policy.ProxyProtocol == nil || inner == nil {
		return inner
	}
	version := corev3.ProxyProtocolConfig_V1
	if t.policy.ProxyProtocol.GetVersion() == networking.TrafficPolicy_ProxyProtocol_V2 {
		version = corev3.ProxyProtocolConfig_V2
	}
	return j.socket(nameProxyProtocol, &proxyprotocolv3.ProxyProtocolUpstreamTransport{
		Config: &corev3.ProxyProtocolConfig{Version: version}, TransportSocket: inner,
	})
}

// security says what TLS is in force. A rule's settings count as they are, but for client certificates that the proxy
// itself was given; without any, endpoints of the mesh get mutual TLS where it can be expected.
func (j *job) security(t *target) secured {
	settings := t.policy.TLS
	if settings == nil {
		return j.automatic(t)
	}
	switch settings.GetMode() {
	case networking.ClientTLSSettings_DISABLE:
		return secured{}
	case networking.ClientTLSSettings_SIMPLE:
		return secured{client: j.userClient(t, settings)}
	}
	if !t.service.MeshExternal || !j.set.PreferDRTLSForExternal {
		if own := j.ownCertificate(); own != nil {
			own.SubjectAltNames, own.SNI = settings.GetSubjectAltNames(), settings.GetSni()
			return secured{client: own}
		}
	}
	if settings.GetMode() == networking.ClientTLSSettings_MUTUAL {
		return secured{client: j.userClient(t, settings)}
	}
	client := j.meshClient(t, settings.GetSubjectAltNames())
	if sni := settings.GetSni(); sni != "" {
		client.SNI = sni
	}
	return secured{client: client}
}

func (j *job) automatic(t *target) secured {
	auto := j.mesh.Config.GetEnableAutoMtls()
	if t.service.MeshExternal || auto != nil && !auto.GetValue() || !j.c.HasCertificate() || !j.expectsMTLS(t) {
		return secured{}
	}
	if own := j.ownCertificate(); own != nil {
		own.SubjectAltNames, own.SNI = j.accounts(t), t.sni()
		return secured{client: own, auto: true}
	}
	return secured{client: j.meshClient(t, nil), auto: true}
}

// expectsMTLS tells whether the service's endpoints may accept mutual TLS. It is a hint: which of them do is said with
// each endpoint, except where the proxy finds the endpoints itself.
func (j *job) expectsMTLS(t *target) bool {
	if t.originalDst || t.service.Resolution == model.Passthrough {
		all := j.c.Endpoints(t.service.ServiceKey).All
		if len(all) == 0 {
			return false
		}
		for _, e := range all {
			if e.TLSMode != "istio" {
				return false
			}
		}
	}
	return j.c.NamespaceMTLS(t.service.Namespace) != model.MTLSDisable
}

func (j *job) meshClient(t *target, names []string) *tls.Client {
	if names == nil {
		names = j.accounts(t)
	}
	return &tls.Client{Mode: networking.ClientTLSSettings_ISTIO_MUTUAL, SubjectAltNames: names, SNI: t.sni()}
}

func (j *job) accounts(t *target) []string { return j.c.ServiceAccounts(t.service.ServiceKey) }

// ownCertificate returns mutual TLS with the files that the proxy's metadata names, nil if it names none.
func (j *job) ownCertificate() *tls.Client {
	chain := j.c.Meta("TLS_CLIENT_CERT_CHAIN")
	if chain == "" {
		return nil
	}
	return &tls.Client{
		Mode: networking.ClientTLSSettings_MUTUAL, Certificate: chain, Key: j.c.Meta("TLS_CLIENT_KEY"),
		Roots: j.c.Meta("TLS_CLIENT_ROOT_CERT"), FilesByAgent: j.filesByAgent(), NoAgent: !j.c.HasCertificate(),
	}
}

func (j *job) filesByAgent() bool { return j.c.Meta("file-credential") == "true" }

// userClient returns a rule's own TLS settings; nil for credentials that a sidecar is not entitled to, since the rule
// is not meant for it alone. Mutual TLS without a certificate is an error of the cluster: it must not become plaintext.
func (j *job) userClient(t *target, s *networking.ClientTLSSettings) *tls.Client {
	name := s.GetCredentialName()
	if name != "" && j.kind == view.Sidecar && t.rule.Selector == nil && !strings.HasPrefix(name, "configmap://") {
		return nil
	}
	return &tls.Client{
		Mode: s.GetMode(), SubjectAltNames: s.GetSubjectAltNames(), SNI: s.GetSni(),
		Certificate: s.GetClientCertificate(), Key: s.GetPrivateKey(), Roots: s.GetCaCertificates(),
		CredentialName: name, RootsName: s.GetCaCertCredentialName(), RevocationList: s.GetCaCrl(),
		InsecureSkipVerify: s.GetInsecureSkipVerify().GetValue(), FilesByAgent: j.filesByAgent(), NoAgent: !j.c.HasCertificate(),
	}
}

// autoNames lets Envoy take the server name, and the name to accept, from the request where neither is given. Services
// of ServiceEntries have names of their own to accept.
func autoNames(c *tls.Client, t *target, o *httpOptions) {
	if c.SNI == "" {
		o.upstream = &corev3.UpstreamHttpProtocolOptions{
			AutoSni: true, AutoSanValidation: len(c.SubjectAltNames) == 0 && !c.InsecureSkipVerify,
		}
	}
	if len(c.SubjectAltNames) == 0 && t.service.Registry == model.External && !c.InsecureSkipVerify {
		c.SubjectAltNames = t.service.SubjectAltNames
	}
}

// overridesALPN tells whether the rule's TLS settings must not be disturbed by what the mesh does with ALPN.
func overridesALPN(p *traffic.Policy) bool {
	m := p.TLS.GetMode()
	return m == networking.ClientTLSSettings_SIMPLE || m == networking.ClientTLSSettings_MUTUAL
}
