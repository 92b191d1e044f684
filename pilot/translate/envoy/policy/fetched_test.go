package policy

import (
	"strings"
	"testing"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/keyset"
	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// TestFetchedKeys wants fetched keys where they are there and Envoy can read them, and else a key that nobody holds.
func TestFetchedKeys(t *testing.T) {
	t.Parallel()
	const good = `{"keys":[{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}]}`
	row := func(q keyset.Request, text string) *model.Object {
		return &model.Object{ObjectKey: q.Key(), Spec: &keyset.Set{JSON: text}}
	}
	byURI := keyset.Request{URI: "https://a.example/keys"}
	byIssuer := keyset.Request{URI: "https://a.example/.well-known/openid-configuration", Discovery: true}
	for name, c := range map[string]struct {
		rule string
		row  *model.Object
		want string
	}{
		"by URI":             {`{issuer: a, jwksUri: "https://a.example/keys"}`, row(byURI, good), good},
		"by issuer":          {`{issuer: "https://a.example/"}`, row(byIssuer, good), good},
		"another's":          {`{issuer: a, jwksUri: "https://b.example/keys"}`, row(byURI, good), rejectAll},
		"never fetched":      {`{issuer: a, jwksUri: "https://a.example/keys"}`, nil, rejectAll},
		"nowhere to be had":  {`{issuer: a}`, nil, rejectAll},
		"of no use to Envoy": {`{issuer: a, jwksUri: "https://a.example/keys"}`, row(byURI, `{"keys":[{"kty":"new"}]}`), rejectAll},
	} {
		for _, stock := range []bool{false, true} {
			objects := []*model.Object{object(t, model.KindRequestAuthentication, "shop/r", "jwtRules: ["+c.rule+"]", nil)}
			if c.row != nil {
				objects = append(objects, c.row)
			}
			s := policies(t, &meshconfig.MeshConfig{}, stock, objects...)
			text := httpText(t, s.HTTP().Authn)
			if !strings.Contains(text, strings.ReplaceAll(c.want, `"`, `\"`)) {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}
