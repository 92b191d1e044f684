package imports

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// budget is how many direct dependencies the module may have.
const budget = 30

func TestEachDirectDependencyIsExplained(t *testing.T) {
	t.Parallel()
	root, err := harness.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	direct, err := directDependencies(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if len(direct) == 0 || len(direct) > budget {
		t.Errorf("%d direct dependencies, want at most %d and more than none", len(direct), budget)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", "dependencies.md"))
	if err != nil {
		t.Fatal(err)
	}
	if missing := undocumented(direct, string(text)); len(missing) > 0 {
		t.Errorf("docs/dependencies.md does not say what these are for: %v", missing)
	}
}

func TestUndocumentedNeedsTheWholeName(t *testing.T) {
	t.Parallel()
	got := undocumented([]string{"a.io/x", "a.io/x/v2", "b.io/y"}, "| `a.io/x/v2`, `b.io/y` |")
	if want := []string{"a.io/x"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
