package harness

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Names of an API server's files in its directory.
const (
	servingCert = "serving.crt" // self-signed, so it is its own authority
	servingKey  = "serving.key"
	accountKey  = "account.key" // signs service account tokens
	accountPub  = "account.pub"
	tokenFile   = "tokens.csv"
	kubeconfig  = "kubeconfig"
)

// writeCredentials writes the keys and the certificate of an API server and the table of its tokens, and returns the
// certificate.
func writeCredentials(dir, token string) ([]byte, error) {
	serving, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the serving key: %w", err)
	}
	account, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the service account key: %w", err)
	}
	cert, err := selfSigned(serving)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(account.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding the service account key: %w", err)
	}
	files := map[string][]byte{
		servingCert: cert,
		accountPub:  pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}),
		tokenFile:   []byte(token + ",admin,admin,system:masters\n"),
	}
	for name, key := range map[string]*ecdsa.PrivateKey{servingKey: serving, accountKey: account} {
		der, err := x509.MarshalECPrivateKey(key)
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", name, err)
		}
		files[name] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return nil, fmt.Errorf("writing the API server's credentials: %w", err)
		}
	}
	return cert, nil
}

// selfSigned makes a certificate for a server on loopback.
func selfSigned(key *ecdsa.PrivateKey) ([]byte, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "kube-apiserver"},
		// Clocks of containers may differ a little from the host's.
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true, IsCA: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making the serving certificate: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
