package main

import (
	"bufio"
	"strings"
	"testing"
)

const events = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: NOTE two files are long\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: needs root\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p","Elapsed":0.1}
`

const failing = `{"Action":"output","Package":"q","Test":"TestC","Output":"    c_test.go:1: got 1, want 2\n"}
{"Action":"fail","Package":"q","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"q","Output":"FAIL\tq\t0.1s\n"}
{"Action":"fail","Package":"q","Elapsed":0.1}
`

const unbuilt = `{"ImportPath":"r","Action":"build-output","Output":"r.go:1:1: undefined: x\n"}
{"ImportPath":"r","Action":"build-fail"}
{"Action":"output","Package":"r","Output":"FAIL\tr [build failed]\n"}
{"Action":"fail","Package":"r","Elapsed":0,"FailedBuild":"r"}
`

// summarize runs the whole program on the events.
func summarize(t *testing.T, in string) (string, bool) {
	t.Helper()
	var text strings.Builder
	out := bufio.NewWriter(&text)
	s, err := read(strings.NewReader(in), out)
	if err != nil {
		t.Fatal(err)
	}
	s.print(out)
	if err := out.Flush(); err != nil {
		t.Fatal(err)
	}
	return text.String(), s.bad()
}

func TestPassingRunNamesSkipsAndNotes(t *testing.T) {
	t.Parallel()
	got, bad := summarize(t, events)
	want := "ok  \tp\t0.1s\nnote: two files are long\n--- SKIP: p TestB: needs root\n1 passed, 0 failed, 1 skipped\n"
	if got != want || bad {
		t.Errorf("bad=%v, got:\n%s\nwant:\n%s", bad, got, want)
	}
}

func TestFailureIsPrintedAndFailsTheRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"test":     {events + failing, "c_test.go:1: got 1, want 2\nFAIL\tq\t0.1s\n"},
		"build":    {unbuilt, "r.go:1:1: undefined: x\nFAIL\tr [build failed]\n"},
		"not json": {"go: no such tool\n" + failing, "go: no such tool\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, bad := summarize(t, c.in)
			if !bad || !strings.Contains(got, c.want) {
				t.Errorf("bad=%v, got:\n%s\nwant in it:\n%s", bad, got, c.want)
			}
		})
	}
}
