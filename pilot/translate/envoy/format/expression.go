package format

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"cel.dev/cel-go/common"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/parser"
)

// ValidExpression tells whether an Envoy accepts text as a CEL expression. It accepts less than the language has, as
// Envoy does, which refuses a listener with an expression that it cannot parse or that calls a function it does not have:
// no macros beside has(), no optional values, no messages, no string(); regular expressions that are written out are
// small. Found by experiment with Envoy 1.40.0.
func ValidExpression(text string) bool {
	_, ok := parsed(text)
	return ok
}

// Expression tells whether an Envoy accepts text as the expression of a substitution %CEL(…)%, and returns it as it can
// stand there: on one line.
func Expression(text string) (string, bool) {
	tree, ok := parsed(text)
	if !ok {
		return "", false
	}
	line, err := parser.Unparse(tree.Expr(), tree.SourceInfo(), parser.WrapOnColumn(maxExpression))
	if err != nil || strings.ContainsAny(line, "\n\r") {
		return "", false
	}
	return line, !endsCommand().MatchString(line)
}

// maxExpression is the length of the longest expression that is looked at, and maxDepth how deep one may nest.
const maxExpression, maxDepth = 10_000, 32

func parsed(text string) (*ast.AST, bool) {
	if len(text) > maxExpression {
		return nil, false
	}
	p, err := parser.NewParser(parser.Macros(parser.HasMacro), parser.MaxRecursionDepth(maxDepth), parser.PopulateMacroCalls(true))
	if err != nil {
		return nil, false
	}
	tree, problems := p.Parse(common.NewTextSource(text))
	if len(problems.GetErrors()) > 0 {
		return nil, false
	}
	ok := true
	ast.PreOrderVisit(tree.Expr(), ast.NewExprVisitor(func(e ast.Expr) { ok = ok && taken(e) }))
	return tree, ok
}

// endsCommand finds what Envoy would take for the end of the substitution.
func endsCommand() *regexp.Regexp { return regexp.MustCompile(`\)(:[0-9]+)?%`) }

// taken tells whether Envoy takes one node of an expression.
func taken(e ast.Expr) bool {
	switch e.Kind() {
	case ast.StructKind, ast.ComprehensionKind:
		return false
	case ast.CallKind:
		return known(e.AsCall())
	default:
		return true
	}
}

// known tells whether Envoy has a function with as many arguments.
func known(c ast.CallExpr) bool {
	name, args, member := c.FunctionName(), c.Args(), c.IsMemberFunction()
	if _, ok := operators.FindReverse(name); ok || name == operators.Conditional || name == operators.Index {
		return true
	}
	if member && c.Target().Kind() == ast.IdentKind && c.Target().AsIdent() == "re" {
		// It compiles their expressions when it needs them.
		return name == "extract" && len(args) == 3 || (name == "capture" || name == "captureN") && len(args) == 2
	}
	if member {
		args = append([]ast.Expr{c.Target()}, args...)
	}
	switch name {
	case "contains", "startsWith", "endsWith":
		return len(args) == 2
	case "matches":
		return len(args) == 2 && (args[1].Kind() != ast.LiteralKind || smallRegex(args[1].AsLiteral()))
	case "size":
		return len(args) == 1
	case "bool", "bytes", "double", "duration", "dyn", "int", "timestamp", "type", "uint":
		return !member && len(args) == 1
	case "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
		"getMinutes", "getMonth", "getSeconds": // with a time zone or without
		return member && len(args) <= 2
	}
	return false
}

// maxRegex is the size of a regular expression's program that Envoy surely takes: by default it allows 100 of RE2's
// instructions, and needs many for a character of which most of Unicode is one.
const (
	maxRegex  = 90
	wideRegex = 15
)

// smallRegex tells whether Envoy compiles what is written out as a regular expression. What is computed it compiles when
// it is needed, and fails that evaluation alone.
func smallRegex(v ref.Val) bool {
	text, ok := v.(types.String)
	if !ok {
		return true
	}
	if wideEscape(string(text)) {
		return false
	}
	re, err := syntax.Parse(string(text), syntax.Perl)
	if err != nil {
		return false
	}
	prog, err := syntax.Compile(re.Simplify())
	if err != nil {
		return false
	}
	size := 0
	for _, i := range prog.Inst {
		size++
		wide := i.Op == syntax.InstRuneAny || i.Op == syntax.InstRuneAnyNotNL || len(i.Rune) > 0 && i.Rune[len(i.Rune)-1] > 0x7f
		if wide {
			size += wideRegex + len(i.Rune)
		}
	}
	return size <= maxRegex
}
