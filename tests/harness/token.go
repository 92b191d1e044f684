package harness

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"testing"
)

// Signer issues tokens (JWT, signed with RS256) and publishes the key to check them by.
type Signer struct {
	key *rsa.PrivateKey
	id  string
}

// NewSigner makes a signer with a key of that id.
func NewSigner(t testing.TB, id string) *Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	return &Signer{key, id}
}

func part(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// Keys is the published key set (JWKS).
func (s *Signer) Keys() string {
	e := big.NewInt(int64(s.key.E)).Bytes()
	return fmt.Sprintf(`{"keys":[{"kty":"RSA","alg":"RS256","kid":%q,"n":%q,"e":%q}]}`, s.id, part(s.key.N.Bytes()), part(e))
}

// Token issues a token with the claims.
func (s *Signer) Token(t testing.TB, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	must(t, err)
	text := part(fmt.Appendf(nil, `{"alg":"RS256","kid":%q}`, s.id)) + "." + part(payload)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, sum[:])
	must(t, err)
	return text + "." + part(sig)
}
