package imports

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

// directDependencies returns the modules that go.mod in dir requires for our own imports.
func directDependencies(ctx context.Context, dir string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "edit", "-json")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("reading go.mod: %w", err)
	}
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	if err := json.Unmarshal(out, &file); err != nil {
		return nil, fmt.Errorf("reading go.mod: %w", err)
	}
	var direct []string
	for _, r := range file.Require {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}
	return direct, nil
}

// undocumented returns the modules that the text does not name in backquotes.
func undocumented(modules []string, text string) []string {
	var missing []string
	for _, m := range modules {
		if !strings.Contains(text, "`"+m+"`") {
			missing = append(missing, m)
		}
	}
	return missing
}
