package harness

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestToolsComeFromTheEnvironmentOrTheModule(t *testing.T) {
	t.Setenv(toolsEnv, "")
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	tools, err := FindTools()
	if want := filepath.Join(root, ".tools", "bin"); err != nil || tools.Dir != want {
		t.Errorf("got %q, %v; want %q", tools.Dir, err, want)
	}
	t.Setenv(toolsEnv, "/elsewhere")
	if tools, err = FindTools(); err != nil || tools.Dir != "/elsewhere" {
		t.Errorf("got %q, %v; want the environment's", tools.Dir, err)
	}
}

func TestOnlyAnExecutableFileIsATool(t *testing.T) {
	t.Parallel()
	tools := Tools{Dir: t.TempDir()}
	for name, mode := range map[string]os.FileMode{"good": 0o755, "bad": 0o644} {
		if err := os.WriteFile(filepath.Join(tools.Dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := tools.Path("good"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"bad", "absent"} {
		var missing *MissingToolError
		if _, err := tools.Path(name); !errors.As(err, &missing) || missing.Tool != name {
			t.Errorf("%s: got %v, want a MissingToolError", name, err)
		}
	}
}

func TestAMissingToolSkipsUnlessRequired(t *testing.T) {
	start := func(t testing.TB) { NewEnvoy(t, EnvoyOptions{Tools: Tools{Dir: "/nowhere"}}) }
	t.Setenv(requireEnv, "")
	if got := outcome(start); !strings.Contains(got.skipped, "needs the tool envoy") || got.failure != "" {
		t.Errorf("skipped %q, failed %q; want a skip that names envoy", got.skipped, got.failure)
	}
	t.Setenv(requireEnv, "1")
	if got := outcome(start); !strings.Contains(got.failure, "envoy is missing in /nowhere") || got.skipped != "" {
		t.Errorf("skipped %q, failed %q; want a failure that names envoy", got.skipped, got.failure)
	}
}
