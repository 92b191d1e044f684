package validate

import (
	"slices"

	networking "istio.io/api/networking/v1alpha3"
)

// The cipher suites that Envoy's TLS library takes below TLS 1.3.
func ciphers() []string {
	return []string{
		"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
		"ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
		"ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA",
		"ECDHE-RSA-AES128-SHA256", "ECDHE-PSK-AES128-CBC-SHA", "ECDHE-PSK-AES256-CBC-SHA", "ECDHE-PSK-CHACHA20-POLY1305",
		"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA", "PSK-AES128-CBC-SHA", "PSK-AES256-CBC-SHA",
		"DES-CBC3-SHA",
	}
}

// serverTLS checks the TLS settings of a gateway's server.
func (c *checker) serverTLS(field string, t *networking.ServerTLSSettings) {
	if t == nil {
		return
	}
	c.cipherSuites(field, t)
	named := t.CredentialName != "" || len(t.CredentialNames) > 0
	files := t.ServerCertificate != "" || t.PrivateKey != "" || t.CaCertificates != ""
	switch t.Mode {
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		if files || named || len(t.TlsCertificates) > 0 {
			c.fail(field, "ISTIO_MUTUAL uses the workload's own certificate: no other may be given")
		}
		return
	case networking.ServerTLSSettings_PASSTHROUGH, networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		if files || named || len(t.TlsCertificates) > 0 {
			c.warn(field, "%s does not terminate TLS: the certificate is not used", t.Mode)
		}
		return
	}
	if t.CredentialName != "" && len(t.CredentialNames) > 0 {
		c.fail(field+".credentialNames", "excludes credentialName")
	}
	if named && (t.CaCrl != "") {
		c.fail(field+".caCrl", "with credentialName the list of revocations is in the secret")
	}
	if t.Mode == networking.ServerTLSSettings_SIMPLE && t.CaCrl != "" {
		c.fail(field+".caCrl", "SIMPLE does not check clients' certificates")
	}
	if named {
		if len(t.TlsCertificates) > 0 {
			c.fail(field+".tlsCertificates", "excludes credentialName")
		}
		return
	}
	c.certificateFiles(field, t)
}

func (c *checker) certificateFiles(field string, t *networking.ServerTLSSettings) {
	if t.Mode != networking.ServerTLSSettings_SIMPLE && t.Mode != networking.ServerTLSSettings_MUTUAL &&
		t.Mode != networking.ServerTLSSettings_OPTIONAL_MUTUAL {
		return
	}
	switch {
	case len(t.TlsCertificates) > 0:
		if t.ServerCertificate != "" || t.PrivateKey != "" {
			c.fail(field+".tlsCertificates", "excludes serverCertificate and privateKey")
		}
		for i, cert := range t.TlsCertificates {
			if cert.GetServerCertificate() == "" || cert.GetPrivateKey() == "" {
				c.fail(index(field+".tlsCertificates", i), "serverCertificate and privateKey are needed")
			}
		}
	default:
		if t.ServerCertificate == "" {
			c.fail(field+".serverCertificate", "needed for %s without credentialName", t.Mode)
		}
		if t.PrivateKey == "" {
			c.fail(field+".privateKey", "needed for %s without credentialName", t.Mode)
		}
	}
	if t.Mode != networking.ServerTLSSettings_SIMPLE && t.CaCertificates == "" && t.CaCertCredentialName == "" {
		c.fail(field+".caCertificates", "needed for %s without credentialName", t.Mode)
	}
}

func (c *checker) cipherSuites(field string, t *networking.ServerTLSSettings) {
	var seen []string
	for i, s := range t.CipherSuites {
		at := index(field+".cipherSuites", i)
		switch {
		case !slices.Contains(ciphers(), s):
			c.warn(at, "%q is not a cipher suite that proxies know; it is left out", s)
		case slices.Contains(seen, s):
			c.warn(at, "%q is listed twice", s)
		}
		seen = append(seen, s)
	}
	old := func(v networking.ServerTLSSettings_TLSProtocol) bool {
		return v == networking.ServerTLSSettings_TLSV1_0 || v == networking.ServerTLSSettings_TLSV1_1
	}
	if len(t.CipherSuites) == 0 && (old(t.MinProtocolVersion) || old(t.MaxProtocolVersion)) {
		c.warn(field+".minProtocolVersion", "TLS below 1.2 needs cipherSuites that allow it")
	}
	if lowest, highest := t.MinProtocolVersion, t.MaxProtocolVersion; highest != 0 && lowest > highest {
		c.fail(field+".maxProtocolVersion", "%s is lower than %s", highest, lowest)
	}
}
