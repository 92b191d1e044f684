package format

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
)

// maxProgram is the size up to which a regular expression stays below RE2's 32768 instructions, which Istio's bootstrap
// allows: where Go needs one for a class of characters, RE2 needs several.
const maxProgram = 5000

// Regex tells why Envoy would refuse a regular expression. Its syntax is RE2's, which is Go's, but on bytes; the
// program's size is looked at where a short text can make a large one.
func Regex(text string) error {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return err
	}
	if wideEscape(text) {
		return errors.New("a character beyond \\xff")
	}
	if len(text) <= maxProgram/5 && !strings.Contains(text, "{") {
		return nil
	}
	prog, err := syntax.Compile(re.Simplify())
	if err == nil && len(prog.Inst) > maxProgram {
		err = fmt.Errorf("a program of %d instructions", len(prog.Inst))
	}
	return err
}

// wideEscape finds an escape such as \x{100}, which Envoy's RE2 cannot mean: it works on bytes.
func wideEscape(text string) bool {
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return false
		}
		escape := text[i+1:]
		text = escape[1:]
		if digits, ok := strings.CutPrefix(escape, "x{"); ok {
			digits, _, _ = strings.Cut(digits, "}")
			if len(strings.TrimLeft(digits, "0")) > 2 {
				return true
			}
		}
	}
}
