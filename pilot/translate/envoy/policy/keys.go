package policy

import (
	"encoding/base64"
	"encoding/json"
	"strings"
)

// minModulus is the size of the smallest RSA modulus that Envoy takes, in bytes.
const minModulus = 64

// jsonKey is the part of a JSON Web Key that decides whether Envoy can read it.
type jsonKey struct {
	Type      string `json:"kty"`
	Algorithm string `json:"alg"`
	Curve     string `json:"crv"`
	N         string `json:"n"`
	E         string `json:"e"`
	X         string `json:"x"`
	Y         string `json:"y"`
	K         string `json:"k"`
}

// usableKeys tells whether Envoy can read at least one key of a key set. It refuses a whole listener for a set without
// any, which would let one policy's mistake close a workload.
func usableKeys(set string) bool {
	var list struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if json.Unmarshal([]byte(set), &list) != nil {
		return false
	}
	for _, raw := range list.Keys {
		var k jsonKey
		if json.Unmarshal(raw, &k) == nil && k.usable() {
			return true
		}
	}
	return false
}

func (k *jsonKey) usable() bool {
	switch k.Type {
	case "RSA":
		return k.signs("RS", "PS") && odd(k.N) && odd(k.E) && len(keyBytes(k.N)) >= minModulus
	case "EC":
		return k.signs("ES") && strings.HasPrefix(k.Curve, "P-") && len(keyBytes(k.X)) > 0 && len(keyBytes(k.Y)) > 0
	case "OKP":
		return k.signs("EdDSA") && len(keyBytes(k.X)) > 0
	case "oct":
		return k.signs("HS") && len(keyBytes(k.K)) > 0
	}
	return false
}

// signs tells whether the key is for an algorithm that begins with one of the prefixes, or for none in particular.
func (k *jsonKey) signs(prefixes ...string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(k.Algorithm, p) {
			return true
		}
	}
	return k.Algorithm == ""
}

// keyBytes returns a field in base64url, nothing if it is not that.
func keyBytes(text string) []byte {
	b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
	if err != nil {
		return nil
	}
	return b
}

// odd tells whether a field is an odd number, as both of an RSA key must be.
func odd(text string) bool {
	b := keyBytes(text)
	return len(b) > 0 && b[len(b)-1]&1 == 1
}
