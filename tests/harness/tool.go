package harness

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Names of the tools that tools/get.sh puts into .tools/bin.
const (
	EnvoyTool     = "envoy"
	EtcdTool      = "etcd"
	APIServerTool = "kube-apiserver"
)

// toolsEnv overrides the directory that the tools are looked for in; requireEnv turns a skip for a missing tool into
// a failure.
const (
	toolsEnv   = "MIZZEN_TOOLS"
	requireEnv = "MIZZEN_REQUIRE_TOOLS"
)

// MissingToolError says that a tool is not installed.
type MissingToolError struct {
	Tool string // its file name
	Dir  string // where it was looked for
}

func (e *MissingToolError) Error() string {
	return fmt.Sprintf("%s is missing in %s: run tools/get.sh %s", e.Tool, e.Dir, e.Tool)
}

// Tools is the directory that holds the fetched tools.
type Tools struct {
	Dir string
}

// FindTools returns the directory named by the environment variable MIZZEN_TOOLS, else .tools/bin at the root of the
// module that the working directory lies in.
func FindTools() (Tools, error) {
	if dir := os.Getenv(toolsEnv); dir != "" {
		return Tools{Dir: dir}, nil
	}
	root, err := ModuleRoot()
	if err != nil {
		return Tools{}, fmt.Errorf("finding the tools: %w", err)
	}
	return Tools{Dir: filepath.Join(root, ".tools", "bin")}, nil
}

// Path returns the path of a tool, or a *MissingToolError.
func (t Tools) Path(name string) (string, error) {
	path := filepath.Join(t.Dir, name)
	info, err := os.Stat(path)
	if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
		return "", &MissingToolError{Tool: name, Dir: t.Dir}
	}
	return path, nil
}

// orFound returns t, or the tools that FindTools finds if t is the zero value.
func (t Tools) orFound() (Tools, error) {
	if t.Dir != "" {
		return t, nil
	}
	return FindTools()
}

// ModuleRoot walks up from the working directory to the directory of go.mod.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = parent
	}
}

// NeedTool returns the path of a tool. A test without it is skipped, or fails if tools are required.
func NeedTool(t testing.TB, name string) string {
	t.Helper()
	tools, err := FindTools()
	must(t, err)
	path, err := tools.Path(name)
	must(t, err)
	return path
}

// must ends the test if err is not nil: by a skip that names the tool if one is missing and none is required.
func must(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	var missing *MissingToolError
	if errors.As(err, &missing) && os.Getenv(requireEnv) == "" {
		t.Skipf("needs the tool %s: %v", missing.Tool, err)
	}
	t.Fatal(err)
}
