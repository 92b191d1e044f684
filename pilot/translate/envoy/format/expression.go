package format

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
)

// ValidExpression tells whether an Envoy accepts text as a CEL expression. It accepts less than the language has, as
// Envoy does, which refuses a listener with an expression that it cannot parse or that calls a function it does not have:
// no macros beside has(), no optional values, no messages, no string(); regular expressions that are written out are
// small. Found by experiment with Envoy 1.40.0.
func ValidExpression(text string) bool {
	_, ok := parse(text)
	return ok
}

// Expression tells whether an Envoy accepts text as the expression of a substitution %CEL(…)%, and returns it as it can
// stand there: on one line.
func Expression(text string) (string, bool) {
	tokens, ok := parse(text)
	if !ok {
		return "", false
	}
	words := make([]string, len(tokens))
	for i, t := range tokens {
		words[i] = t.text
	}
	line := strings.Join(words, " ")
	return line, !endsCommand().MatchString(line)
}

func parse(text string) ([]token, bool) {
	p := &expression{}
	ok := p.scan(text) && p.ternary(maxDepth) && p.at == len(p.tokens)
	return p.tokens, ok
}

// endsCommand finds what Envoy would take for the end of the substitution.
func endsCommand() *regexp.Regexp { return regexp.MustCompile(`\)(:[0-9]+)?%`) }

// maxDepth is how deep an expression may nest.
const maxDepth = 32

type tokenKind uint8

const (
	tokenIdent tokenKind = iota
	tokenNumber
	tokenString
	tokenOperator
)

type token struct {
	kind tokenKind
	text string
}

// expression is a recursive descent over an expression's tokens.
type expression struct {
	tokens []token
	at     int
}

func (p *expression) peek() token {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	return token{kind: tokenOperator}
}

// take consumes the next token if it is one of the operators.
func (p *expression) take(operators ...string) bool {
	t := p.peek()
	if t.text == "" || t.kind != tokenOperator || !slices.Contains(operators, t.text) {
		return false
	}
	p.at++
	return true
}

func (p *expression) ternary(depth int) bool {
	if depth == 0 || !p.binary(0, depth) {
		return false
	}
	if !p.take("?") {
		return true
	}
	return p.binary(0, depth) && p.take(":") && p.ternary(depth-1)
}

// binary reads operators of a precedence and the higher ones.
func (p *expression) binary(level, depth int) bool {
	levels := [...][]string{{"||"}, {"&&"}, {"<", "<=", ">", ">=", "==", "!=", "in"}, {"+", "-"}, {"*", "/", "%"}}
	if level == len(levels) {
		return p.unary(depth)
	}
	for {
		if !p.binary(level+1, depth) {
			return false
		}
		if !p.take(levels[level]...) {
			return true
		}
	}
}

func (p *expression) unary(depth int) bool {
	switch {
	case p.take("!"):
		for p.take("!") { // as many as there are, all of one sort
			continue
		}
	case p.take("-"):
		for p.take("-") {
			continue
		}
	}
	return p.member(depth)
}

// member reads a primary with the selections, calls and indices that follow it.
func (p *expression) member(depth int) bool {
	if !p.primary(depth) {
		return false
	}
	for {
		switch {
		case p.take("."):
			name := p.peek()
			if name.kind != tokenIdent || name.text == "true" || name.text == "false" || name.text == "null" {
				return false
			}
			p.at++
			if p.peek().text == "(" && !p.call(name.text, true, depth) {
				return false
			}
		case p.take("["):
			if !p.ternary(depth-1) || !p.take("]") {
				return false
			}
		default:
			return true
		}
	}
}

func (p *expression) primary(depth int) bool {
	t := p.peek()
	switch {
	case p.take("("):
		return p.ternary(depth-1) && p.take(")")
	case p.take("["):
		_, ok := p.list("]", depth)
		return ok
	case p.take("{"):
		return p.entries(depth)
	case p.take("."):
		if t = p.peek(); t.kind != tokenIdent {
			return false
		}
	}
	p.at++
	switch t.kind {
	case tokenNumber, tokenString:
		return true
	case tokenIdent:
		if p.peek().text == "(" && p.peek().kind == tokenOperator {
			return p.call(t.text, false, depth)
		}
		return !reserved(t.text)
	}
	return false
}

// list reads expressions up to the closing token, and returns how many there are.
func (p *expression) list(closing string, depth int) (n int, ok bool) {
	for !p.take(closing) {
		if !p.ternary(depth - 1) {
			return 0, false
		}
		n++
		if !p.take(",") {
			return n, p.take(closing)
		}
	}
	return n, true
}

func (p *expression) entries(depth int) bool {
	for !p.take("}") {
		if !p.ternary(depth-1) || !p.take(":") || !p.ternary(depth-1) {
			return false
		}
		if !p.take(",") {
			return p.take("}")
		}
	}
	return true
}

// call reads the arguments of a function, which Envoy must have with as many.
func (p *expression) call(name string, receiver bool, depth int) bool {
	p.at++ // the parenthesis
	start := p.at
	n, ok := p.list(")", depth)
	if !ok || p.tokens[p.at-2].text == "," {
		return false
	}
	args := p.tokens[start : p.at-1]
	if name == "has" {
		return !receiver && n == 1 && selects(args)
	}
	if before := p.tokens[max(0, start-4):start]; receiver && len(before) == 4 && before[0].text == "re" && library(name, n) {
		return start < 5 || p.tokens[start-5].text != "."
	}
	if receiver {
		n++
	}
	if name == "matches" && n == 2 {
		return smallRegex(args[len(args)-1])
	}
	return known(name, receiver, n)
}

// selects tells whether the argument of has() is a field of something.
func selects(args []token) bool {
	n := len(args)
	return n >= 3 && args[n-1].kind == tokenIdent && args[n-2].kind == tokenOperator && args[n-2].text == "." && plainPath(args)
}

// plainPath tells whether all is one path of names, with indices at most: nothing that binds less.
func plainPath(args []token) bool {
	depth := 0
	for _, t := range args {
		if t.kind != tokenOperator {
			continue
		}
		switch t.text {
		case "[":
			depth++
		case "]":
			depth--
		case ".":
		default:
			if depth == 0 {
				return false
			}
		}
	}
	return true
}

// known tells whether Envoy has a function with n arguments, the receiver included.
func known(name string, receiver bool, n int) bool {
	switch name {
	case "contains", "startsWith", "endsWith":
		return n == 2
	case "size":
		return n == 1
	case "bool", "bytes", "double", "duration", "dyn", "int", "timestamp", "type", "uint":
		return !receiver && n == 1
	case "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear", "getFullYear", "getHours", "getMilliseconds",
		"getMinutes", "getMonth", "getSeconds": // with a time zone or without
		return receiver && (n == 1 || n == 2)
	}
	return false
}

// library tells whether Envoy has a function re.name with n arguments. It compiles their expressions when it needs them.
func library(name string, n int) bool {
	return name == "extract" && n == 3 || (name == "capture" || name == "captureN") && n == 2
}

// maxRegex is the size of a regular expression's program that Envoy surely takes: by default it allows 100 of RE2's
// instructions, and needs many for a character of which most of Unicode is one.
const (
	maxRegex  = 90
	wideRegex = 15
)

// smallRegex tells whether Envoy compiles what is written out as a regular expression. What is computed it compiles when
// it is needed, and fails that evaluation alone.
func smallRegex(t token) bool {
	if t.kind != tokenString {
		return true
	}
	text, ok := plainString(t.text)
	if !ok || wideEscape(text) {
		return false
	}
	re, err := syntax.Parse(text, syntax.Perl)
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

// plainString returns what a string literal without escapes means, or a raw one.
func plainString(text string) (string, bool) {
	raw := strings.HasPrefix(text, "r") || strings.HasPrefix(text, "R")
	text = strings.TrimLeft(text, "rR")
	if !raw && strings.Contains(text, `\`) {
		unquoted, err := strconv.Unquote(`"` + strings.ReplaceAll(text[1:len(text)-1], `"`, `\"`) + `"`)
		return unquoted, err == nil
	}
	return text[1 : len(text)-1], true
}

// reserved tells whether CEL keeps a word for itself.
func reserved(word string) bool {
	switch word {
	case "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package",
		"namespace", "return", "var", "void", "while":
		return true
	}
	return false
}
