package listener

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// TestDemandsReadBack checks that what a unit's name says is what was put into it.
func TestDemandsReadBack(t *testing.T) {
	t.Parallel()
	word := rapid.StringMatching(`[a-zA-Z0-9.*_:/ -]{1,12}`)
	item := rapid.StringMatching(`[a-z0-9.:/-]{1,12}`)
	one := rapid.Custom(func(t *rapid.T) demand {
		return demand{
			service: model.ServiceKey{Host: word.Draw(t, "host"), Namespace: word.Draw(t, "namespace")},
			port:    rapid.Uint32Max(65535).Draw(t, "port"), name: word.Draw(t, "name"),
			protocol: model.Protocol(word.Draw(t, "protocol")), target: rapid.Uint32Max(65535).Draw(t, "target"),
			http: rapid.Bool().Draw(t, "http"), tcp: rapid.Bool().Draw(t, "tcp"), sni: rapid.Bool().Draw(t, "sni"),
			forward: rapid.Bool().Draw(t, "forward"),
			cidrs:   rapid.SliceOfN(item, 1, 3).Draw(t, "cidrs"), rules: rapid.SliceOfN(item, 1, 3).Draw(t, "rules"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(one, 1, 4).Draw(t, "demands")
		var b strings.Builder
		for i := range want {
			want[i].encode(&b)
		}
		if got := decodeDemands(b.String()); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// TestDemandsOfForeignText checks that a name of another origin gives nothing rather than something wrong.
func TestDemandsOfForeignText(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "x", sepField, strings.Repeat(sepField, 8), "0" + strings.Repeat(sepField+"x", 8)} {
		if got := decodeDemands(text); len(got) != 0 {
			t.Errorf("%q gives %+v", text, got)
		}
	}
}
