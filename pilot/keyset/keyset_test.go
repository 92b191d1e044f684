package keyset

import "testing"

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"keys": [ {"kty": "RSA", "n": "A"} ], "x": 1}`: `{"keys":[{"kty":"RSA","n":"A"}],"x":1}`,
		``:                                 "",
		`{}`:                               "",
		`[]`:                               "",
		`null`:                             "",
		`{"keys":[]}`:                      "",
		`{"keys":[{}]}`:                    "",
		`{"keys":["a"]}`:                   "",
		`{"keys":[{"kty":"RSA"}]} trailer`: "",
	} {
		got, err := Parse([]byte(text))
		if (err == nil) != (want != "") || err == nil && got.JSON != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestParseDiscovery(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"jwks_uri":"https://a.example/k"}`: "https://a.example/k",
		`{"jwks_uri":"file:///etc/passwd"}`:  "",
		`{"jwks_uri":7}`:                     "",
		`{}`:                                 "",
		`x`:                                  "",
	} {
		if got, err := ParseDiscovery([]byte(text)); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
}
