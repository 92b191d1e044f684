// Package style checks what keeps the code readable and no linter of ours checks: sizes, names of packages, no init
// functions, no sleeping tests.
package style

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

// Sizes in lines. What exceeds a soft limit is listed; a hard one fails the build.
const (
	softFile, hardFile         = 500, 800
	softFunction, hardFunction = 60, 100
)

// finding is one departure from the rules.
type finding struct {
	where string // file:line
	what  string
	hard  bool
}

func (f finding) String() string { return f.where + ": " + f.what }

// emptyNames are package names that say nothing of what a package holds.
func emptyNames() []string {
	return []string{"util", "utils", "common", "helper", "helpers", "base", "types", "misc", "shared", "lib"}
}

// checkFile returns the findings of one source file. Generated files are of no concern.
func checkFile(name string, source []byte) ([]finding, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("checking style: %w", err)
	}
	if ast.IsGenerated(file) {
		return nil, nil
	}
	c := &checker{set: set, test: strings.HasSuffix(name, "_test.go")}
	if slices.Contains(emptyNames(), strings.TrimSuffix(file.Name.Name, "_test")) {
		c.add(file.Package, true, "the package name %s says nothing", file.Name.Name)
	}
	c.size(file.Package, "the file", set.File(file.FileStart).LineCount(), softFile, hardFile)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			c.function(f)
		}
	}
	if c.test {
		ast.Inspect(file, c.sleep)
	}
	return c.found, nil
}

// checker collects the findings of one file.
type checker struct {
	set   *token.FileSet
	test  bool
	found []finding
}

// add notes a finding.
func (c *checker) add(at token.Pos, hard bool, format string, args ...any) {
	p := c.set.Position(at)
	c.found = append(c.found, finding{fmt.Sprintf("%s:%d", p.Filename, p.Line), fmt.Sprintf(format, args...), hard})
}

// size notes what exceeds a limit.
func (c *checker) size(at token.Pos, what string, lines, soft, hard int) {
	if lines > soft {
		c.add(at, lines > hard, "%s has %d lines, more than %d", what, lines, soft)
	}
}

// function checks one function.
func (c *checker) function(f *ast.FuncDecl) {
	lines := c.set.Position(f.End()).Line - c.set.Position(f.Pos()).Line + 1
	c.size(f.Pos(), f.Name.Name, lines, softFunction, hardFunction)
	if f.Name.Name == "init" && f.Recv == nil {
		c.add(f.Pos(), true, "an init function does its work behind its importers' backs")
	}
}

// sleep notes calls of time.Sleep.
func (c *checker) sleep(n ast.Node) bool {
	s, ok := n.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != "Sleep" {
		return true
	}
	if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
		c.add(s.Pos(), true, "tests poll with a deadline (harness.Eventually) and never sleep")
	}
	return true
}
