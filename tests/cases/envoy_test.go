package cases

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// envoyPath returns the path of a real Envoy.
func envoyPath(t *testing.T) string {
	t.Helper()
	tools, err := harness.FindTools()
	if err != nil {
		t.Fatal(err)
	}
	path, err := tools.Path(harness.EnvoyTool)
	var missing *harness.MissingToolError
	if errors.As(err, &missing) && os.Getenv("MIZZEN_REQUIRE_TOOLS") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEnvoyTakesCases has a stock Envoy look at what the proxies get of cases that ask for it, in the stock profile.
func TestEnvoyTakesCases(t *testing.T) {
	t.Parallel()
	envoy := envoyPath(t)
	eachList(t, func(t *testing.T, l *list) {
		for _, c := range l.Tests {
			if !c.Envoy {
				continue
			}
			t.Run(c.Title, func(t *testing.T) {
				t.Parallel()
				plane := c.start(t, false)
				node, err := c.Node.node()
				if err != nil {
					t.Fatal(err)
				}
				node = offline.Stock(node)
				got, err := plane.Ask(node, plane.SubscriptionOf(node, nil))
				if err != nil {
					t.Fatal(err)
				}
				text, err := got.BootstrapJSON(node)
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), "bootstrap.json")
				if err := os.WriteFile(path, text, 0o600); err != nil {
					t.Fatal(err)
				}
				out, err := exec.CommandContext(t.Context(), envoy, "--mode", "validate", "-c", path).CombinedOutput() //nolint:gosec // the tool the build fetched
				if err != nil {
					t.Errorf("%v\n%s", err, out[max(0, len(out)-2000):])
				}
			})
		}
	})
}
