package validate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/validate"
)

// TestObject runs the archives in testdata: the objects of input.yaml have the issues wanted.
func TestObject(t *testing.T) {
	t.Parallel()
	fixture.EachArchive(t, func(t *testing.T, a *fixture.Archive) {
		a.Check(t, []string{"issues"}, map[string]string{"issues": issues(t, []byte(a.Text("input.yaml")))})
	})
}

func issues(t *testing.T, data []byte) string {
	t.Helper()
	objects, problems := file.Decode("input.yaml", data)
	if len(problems) > 0 {
		t.Fatalf("the input does not decode: %v", problems)
	}
	var b strings.Builder
	for _, o := range objects {
		fmt.Fprintf(&b, "%s\n", o.ObjectKey)
		for _, i := range validate.Object(o) {
			level := "E"
			if i.Warning {
				level = "W"
			}
			fmt.Fprintf(&b, "  %s %s: %s\n", level, i.Field, i.Message)
		}
	}
	return b.String()
}

// refused lists the objects of the recorded scenarios that are there to be invalid.
func refused() []string {
	return []string{
		"authz-conditions AuthorizationPolicy/shop/deny-none",
		"authz-custom-http-provider AuthorizationPolicy/shop/c1",
		"dr-proxy-protocol-and-tunnel ServiceEntry/shop/tgt",
		"dr-workload-selector DestinationRule/shop/for-tool",
		"se-auto-allocate-dns-capture ServiceEntry/shop/mail",
		"vs-delegates VirtualService/team/leaf",
		"vs-http-match-kinds VirtualService/shop/menu",
		"vs-rewrite-redirect-direct-response VirtualService/shop/menu",
		"vs-tcp-tls-routes VirtualService/shop/db",
		"vs-tcp-tls-routes ServiceEntry/shop/ext",
		"vs-weights-mirror-fault-headers VirtualService/shop/menu",
		"ztunnel-authz-l4 AuthorizationPolicy/istio-system/global",
	}
}

// TestRecordedInputs checks that nothing else that a control plane without admission took is refused.
func TestRecordedInputs(t *testing.T) {
	t.Parallel()
	shared := os.Getenv("MIZZEN_SHARED")
	if shared == "" {
		shared = "../../../shared"
	}
	names, err := filepath.Glob(filepath.Join(shared, "parity/*/input.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	more, _ := filepath.Glob(filepath.Join(shared, "parity/*/*/input.yaml"))
	if names = append(names, more...); len(names) == 0 {
		t.Skip("the recorded scenarios are not here (MIZZEN_SHARED)")
	}
	decoder := file.NewDecoder(0, validate.Object)
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		objects, problems := decoder.Decode(filepath.Base(filepath.Dir(name)), data)
		for _, p := range problems {
			if !slices.Contains(refused(), p.File+" "+p.Object.String()) {
				t.Errorf("%s:%d %s %s: %s", p.File, p.Line, p.Object, p.Field, p.Message)
			}
		}
		if len(objects) == 0 {
			t.Errorf("%s: no objects", name)
		}
	}
}
