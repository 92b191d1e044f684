package imports

import (
	"strings"
	"testing"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

func TestImportsGoDownwardOnly(t *testing.T) {
	t.Parallel()
	root, err := harness.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	broken, err := checkTree(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(broken) > 0 {
		t.Errorf("imports against the direction of docs/architecture.md:\n%s", strings.Join(broken, "\n"))
	}
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		file, path string
		ok         bool
	}{
		{"pkg/store/a.go", module + "/pkg/cell", true},
		{"pkg/store/a.go", module + "/pilot/model", false},
		{"pkg/store/a.go", module + "/security/ca", false},
		{"pkg/store/a_test.go", module + "/pilot/model", false},
		{"pkg/store/a_test.go", module + "/tests/harness", true},
		{"pkg/store/a.go", module + "/tests/harness", false},
		{"pkg/store/a.go", module + "/pkgother", false},
		{"pkg/store/a.go", "k8s.io/api/core/v1", true},
		{"security/ca/a.go", module + "/pkg/spiffe", true},
		{"security/ca/a.go", module + "/pilot/model", false},
		{"pilot/xds/a.go", module + "/security/ca", true},
		{"pilot/xds/a.go", module + "/operator/profile", false},
		{"pilot/xds/a.go", module + "/cmd/mizzen", false},
		{"operator/a.go", module + "/pkg/kube", true},
		{"operator/a.go", module + "/pilot/model", false},
		{"cmd/mizzen/a.go", module + "/operator", true},
		{"cmd/mizzen/a.go", "istio.io/istio/pkg/config", false},
		{"tests/parity/a_test.go", "istio.io/istio", false},
		{"cmd/mizzen/a.go", "istio.io/istio-something", true},
		{"cmd/mizzen/a.go", "istio.io/api/mesh/v1alpha1", true},
	} {
		if why := reject(c.file, c.path); (why == "") != c.ok {
			t.Errorf("%s imports %s: got %q, want allowed=%v", c.file, c.path, why, c.ok)
		}
	}
}
