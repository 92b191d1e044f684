// Package imports holds the direction of imports between the top folders (docs/architecture.md) and checks it.
package imports

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is the path of this module.
const module = "github.com/mizzen-mesh/mizzen"

// testParts may be imported by tests anywhere: it starts the real parts they run against.
const testParts = "tests/harness"

// forbidden lists modules that nothing may import, tests included.
func forbidden() []string { return []string{"istio.io/istio"} }

// allowed lists the top folders that each top folder may import. A folder that is not listed may import everything.
func allowed() map[string][]string {
	return map[string][]string{
		"pkg":      {"pkg"},
		"security": {"pkg", "security"},
		"pilot":    {"pkg", "security", "pilot"},
		"operator": {"pkg", "operator"},
	}
}

// checkTree parses the imports of all Go files under root and returns what breaks the rules, one line each.
func checkTree(root string) ([]string, error) {
	var broken []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if skipped(path, root, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return fmt.Errorf("parsing imports: %w", err)
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		found, err := checkFile(filepath.ToSlash(name), file)
		broken = append(broken, found...)
		return err
	})
	return broken, err
}

// skipped says whether a directory holds no code of ours.
func skipped(path, root, name string) bool {
	return path != root && (strings.HasPrefix(name, ".") || name == "testdata")
}

// checkFile checks one file by its path from the root.
func checkFile(name string, file *ast.File) ([]string, error) {
	var broken []string
	var errs []error
	for _, spec := range file.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err))
			continue
		}
		if why := reject(name, path); why != "" {
			broken = append(broken, fmt.Sprintf("%s imports %s: %s", name, path, why))
		}
	}
	return broken, errors.Join(errs...)
}

// reject says why a file may not import a package; empty means it may.
func reject(name, path string) string {
	for _, f := range forbidden() {
		if within(path, f) {
			return "nothing may"
		}
	}
	if !within(path, module) {
		return ""
	}
	target := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
	if strings.HasSuffix(name, "_test.go") && within(target, testParts) {
		return ""
	}
	from, _, _ := strings.Cut(name, "/")
	to, _, _ := strings.Cut(target, "/")
	folders, ruled := allowed()[from]
	if !ruled || slices.Contains(folders, to) {
		return ""
	}
	return fmt.Sprintf("%s may import only %s", from, strings.Join(folders, ", "))
}

// within says whether a path is a package or lies below it.
func within(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, parent+"/")
}
