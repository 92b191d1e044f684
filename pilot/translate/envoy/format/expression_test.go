package format

import (
	"os"
	"strings"
	"testing"
)

// TestExpression compares with what Envoy 1.40.0 was seen to do with each text; those in the file a test with a real one
// gives it each time.
func TestExpression(t *testing.T) {
	t.Parallel()
	accepted, err := os.ReadFile("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Split(strings.TrimSpace(string(accepted)), "\n") {
		if _, ok := Expression(text); !ok {
			t.Errorf("%q is refused", text)
		}
	}
	for _, text := range []string{
		``, `request.host +`, `nosuch(1)`, `a.nosuch(1)`, `a.split(';')[0]`, `a.replace('a','b')`, `a.matches('[')`, `a.matches('a{2000}')`,
		`request.headers[?'a'].orValue('b')`, `request.?host`, `[1,2].exists(x, x > 1)`, `[1,2].map(x, x > 1)`, `'a' ? 1`, `Foo{a: 1}`, `has(a)`,
		`cel.bind(a, 1, a)`, `9223372036854775808`, `'\d'`, `in`, `a.in`, `for`, `package.x`, "`a`", `math.greatest(1,2)`, `'a'.lowerAscii()`,
		`size('a', 2)`, `'a'.startsWith('b','c')`, `string(1)`, `int(1,2)`, `a[1,2]`, `-!a`, `18446744073709551616u`, `1.`, `1a`,
		`a ? b ? c : d : e`, `'a' 'b'`, `as`, `has(a['b'])`, `has(a.b, c)`, `a.has(b.c)`, `has(a.b())`, `a.all(x, y)`, `a.b(c).d`, `a b`,
		`a.matches('\\pN')`, `a.matches('a{1000}')`, `a.matches('(a{1000}){100}')`, `dyn()`, `loop`, `a.loop()`, `a.true`, `a == é`, `a; b`, `a = b`,
		`a & b`, `'unclosed`, `(a`, `a)`, `f(a,)`, `. 'a'`, `re.nosuch(a, b)`, `a.re.extract('a','b','c')`, `')%'`, `'):10%'`,
	} {
		if out, ok := Expression(text); ok {
			t.Errorf("%q is accepted as %s", text, out)
		}
	}
	for text, want := range map[string]string{"a\n  + b // more": "a + b", "(a)%2": "a % 2", "f == 'x'": `f == "x"`, "[,]": "[]"} {
		if got, ok := Expression(text); !ok || got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// FuzzExpression checks that no text takes long or panics, and that what comes out is an expression and a substitution.
func FuzzExpression(f *testing.F) {
	for _, text := range []string{"a.b(c)", "has(a.b) ? 'x' : r'y'", "((((", "1e+5", `'\x4'`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, ok := Expression(text)
		if !ok {
			return
		}
		if !ValidExpression(out) {
			t.Errorf("%q becomes %q, which is none", text, out)
		}
		if !Valid("%CEL(" + out + ")%") {
			t.Errorf("%q is no substitution", out)
		}
	})
}
