package format

import (
	"slices"
	"strconv"
	"strings"
)

// scan splits text into tokens; white space and comments go.
func (p *expression) scan(text string) bool {
	for {
		text = strings.TrimLeft(text, " \t\r\n\f")
		switch {
		case text == "":
			return len(p.tokens) > 0
		case strings.HasPrefix(text, "//"):
			_, text, _ = strings.Cut(text, "\n")
			continue
		}
		kind, n := next(text)
		if n == 0 {
			return false
		}
		t := token{kind, text[:n]}
		if kind == tokenIdent && t.text == "in" {
			t.kind = tokenOperator
		}
		p.tokens, text = append(p.tokens, t), text[n:]
		if kind == tokenNumber && text != "" && wordChar(text[0]) {
			return false
		}
	}
}

// next returns the kind and length of the token at the start of text, length 0 for none.
func next(text string) (tokenKind, int) {
	c := text[0]
	switch {
	case c == '\'' || c == '"':
		return tokenString, quoted(text, false)
	case (c == 'r' || c == 'R' || c == 'b' || c == 'B') && len(text) > 1 && (text[1] == '\'' || text[1] == '"'):
		if n := quoted(text[1:], c == 'r' || c == 'R'); n > 0 {
			return tokenString, n + 1
		}
		return tokenString, 0
	case c == '_' || letter(c):
		n := 1
		for n < len(text) && wordChar(text[n]) {
			n++
		}
		return tokenIdent, n
	case digit(c) || c == '.' && len(text) > 1 && digit(text[1]):
		return tokenNumber, number(text)
	}
	for _, op := range [...]string{"&&", "||", "==", "!=", "<=", ">="} {
		if strings.HasPrefix(text, op) {
			return tokenOperator, len(op)
		}
	}
	if strings.IndexByte("()[]{}.,?:+-*/%!<>", c) >= 0 {
		return tokenOperator, 1
	}
	return tokenOperator, 0
}

func letter(c byte) bool   { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func digit(c byte) bool    { return c >= '0' && c <= '9' }
func wordChar(c byte) bool { return c == '_' || letter(c) || digit(c) }

// quoted returns the length of a string literal on one line, 0 if it is none. Of escapes only the simple ones are taken.
func quoted(text string, raw bool) int {
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == text[0]:
			if i == 1 && len(text) > 2 && text[2] == text[0] { // three quotes
				return 0
			}
			return i + 1
		case c == '\n' || c == '\r':
			return 0
		case c == '\\' && !raw:
			n := escape(text[i+1:])
			if n == 0 {
				return 0
			}
			i += n
		}
	}
	return 0
}

// escape returns the length of an escape after its backslash.
func escape(text string) int {
	switch {
	case text == "":
		return 0
	case strings.IndexByte(`abfnrtv\'"`, text[0]) >= 0:
		return 1
	case text[0] == 'x' && len(text) > 2:
		if _, err := strconv.ParseUint(text[1:3], 16, 8); err == nil {
			return 3
		}
	}
	return 0
}

// number returns the length of a literal that CEL can hold.
func number(text string) int {
	n := 0
	for n < len(text) && (wordChar(text[n]) || text[n] == '.' && n+1 < len(text) && digit(text[n+1]) ||
		n > 0 && (text[n] == '-' || text[n] == '+') && (text[n-1] == 'e' || text[n-1] == 'E') && !strings.HasPrefix(text, "0x")) {
		n++
	}
	word := text[:n]
	if slices.Contains([]byte(word), '_') {
		return 0
	}
	if unsigned, ok := strings.CutSuffix(word, "u"); ok {
		if _, err := strconv.ParseUint(base(unsigned)); err == nil {
			return n
		}
		return 0
	}
	if _, err := strconv.ParseInt(base(word)); err == nil {
		return n
	}
	if _, err := strconv.ParseFloat(word, 64); err == nil && strings.ContainsAny(word, ".eE") && !strings.ContainsAny(word, "xXpP") {
		return n
	}
	return 0
}

// base returns the arguments by which strconv reads the digits of an integer.
func base(word string) (digits string, radix, bits int) {
	if hex, ok := strings.CutPrefix(word, "0x"); ok {
		return hex, 16, 64
	}
	return word, 10, 64
}
