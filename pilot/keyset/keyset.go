// Package keyset is what fetched keys for tokens are in the model: rows that a source delivers (pilot/source/jwks) and
// the translation of RequestAuthentication reads. Facts: translation-l7 §9.1.
package keyset

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// Kind is the kind of the rows. No user's object has it.
const Kind model.Kind = "KeySet"

// Set is the Spec of a row: the keys as their issuer published them last.
type Set struct {
	// JSON is a JSON Web Key Set without needless space.
	JSON string
}

// Request says where keys are to be had.
type Request struct {
	// URI is that of the key set, or with Discovery that of the issuer's OpenID configuration, which names it.
	URI       string
	Discovery bool
}

// discoveryPath is where an issuer says what it offers.
const discoveryPath = "/.well-known/openid-configuration"

// RequestOf returns where the keys of a rule are to be had. It reports false for a rule that has its keys in itself, or
// that names nothing that can be fetched.
func RequestOf(r *security.JWTRule) (Request, bool) {
	out := Request{URI: r.GetJwksUri()}
	if out.URI == "" {
		out = Request{URI: strings.TrimSuffix(r.GetIssuer(), "/") + discoveryPath, Discovery: true}
	}
	return out, r.GetJwks() == "" && Fetchable(out.URI)
}

// Fetchable tells whether a URI is one of HTTP.
func Fetchable(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}

// Key returns the key of the row that holds what was fetched.
func (r Request) Key() model.ObjectKey {
	name := r.URI
	if r.Discovery {
		name = "discovery of " + name
	}
	return model.ObjectKey{Kind: Kind, Name: name}
}

var errNotKeys = errors.New("the answer is not a JSON Web Key Set")

// Parse reads a key set as its issuer publishes it. The error says nothing about what else the answer is: it may come
// from where a user has no business to look.
func Parse(body []byte) (*Set, error) {
	var list struct {
		Keys []struct {
			Type string `json:"kty"`
		} `json:"keys"`
	}
	if json.Unmarshal(body, &list) != nil || len(list.Keys) == 0 {
		return nil, errNotKeys
	}
	for _, k := range list.Keys {
		if k.Type == "" {
			return nil, errNotKeys
		}
	}
	var b bytes.Buffer
	if json.Compact(&b, body) != nil {
		return nil, errNotKeys
	}
	return &Set{JSON: b.String()}, nil
}

// ParseDiscovery returns the URI of the key set that an issuer's OpenID configuration names.
func ParseDiscovery(body []byte) (string, error) {
	var doc struct {
		URI string `json:"jwks_uri"`
	}
	if json.Unmarshal(body, &doc) != nil || !Fetchable(doc.URI) {
		return "", errors.New("the answer is not an OpenID configuration that names keys")
	}
	return doc.URI, nil
}
