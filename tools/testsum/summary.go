package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
)

// notePrefix marks a line of test output that is shown even though its test passed.
const notePrefix = "NOTE "

// event is one line of `go test -json` (documented by `go doc test2json`).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
}

// testID names a test; an empty test stands for the package itself.
type testID struct{ pkg, test string }

// summary is what has been seen so far.
type summary struct {
	passed, failed int
	skipped        []skip
	notes          []string
	brokenPackages int
}

// skip is one skipped test and why.
type skip struct {
	id     testID
	reason string
}

// bad says whether the run has to fail.
func (s *summary) bad() bool { return s.failed > 0 || s.brokenPackages > 0 }

// location is the file and line that the testing package puts before a message.
var location = regexp.MustCompile(`^[^\s:]+\.go:\d+: `)

// read consumes the events, writing package results and failures as they come.
func read(in io.Reader, out *bufio.Writer) (*summary, error) {
	s := &summary{}
	output := map[testID][]string{}
	lines := bufio.NewReaderSize(in, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if jerr := json.Unmarshal(line, &e); jerr != nil {
				// go itself prints plain text when it cannot start.
				fmt.Fprintf(out, "%s", line)
			} else if perr := s.add(e, output, out); perr != nil {
				return nil, perr
			}
		}
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading test events: %w", err)
		}
	}
}

// add takes in one event.
func (s *summary) add(e event, output map[testID][]string, out *bufio.Writer) error {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		s.output(id, e.Output, output, out)
	case "pass", "fail", "skip":
		s.end(id, e.Action, output[id], out)
		delete(output, id)
		if e.Test == "" {
			return out.Flush()
		}
	}
	return nil
}

// output keeps a line until its test's result is known; lines of a whole package that are its result go out at once.
func (s *summary) output(id testID, text string, output map[testID][]string, out *bufio.Writer) {
	if id.test == "" && isPackageResult(text) {
		fmt.Fprint(out, text)
		return
	}
	if _, note, ok := strings.Cut(text, notePrefix); ok && location.MatchString(strings.TrimSpace(text)) {
		s.notes = append(s.notes, strings.TrimSpace(note))
	}
	output[id] = append(output[id], text)
}

// isPackageResult recognizes the closing line of a package.
func isPackageResult(text string) bool {
	for _, p := range []string{"ok  \t", "FAIL\t", "?   \t"} {
		if strings.HasPrefix(text, p) {
			return true
		}
	}
	return false
}

// end counts a finished test or package and prints the output of a failed one.
func (s *summary) end(id testID, action string, lines []string, out *bufio.Writer) {
	switch {
	case action == "fail":
		for _, l := range lines {
			fmt.Fprint(out, l)
		}
		if id.test == "" {
			s.brokenPackages++
		} else {
			s.failed++
		}
	case id.test == "":
	case action == "pass":
		s.passed++
	default:
		s.skipped = append(s.skipped, skip{id, reason(lines)})
	}
}

// reason finds the message of t.Skip among a test's lines.
func reason(lines []string) string {
	var found []string
	for _, l := range lines {
		l = strings.TrimSpace(l)
		if l == "" || strings.HasPrefix(l, "=== ") || strings.HasPrefix(l, "--- ") {
			continue
		}
		found = append(found, location.ReplaceAllString(l, ""))
	}
	if len(found) == 0 {
		return "no reason given"
	}
	return strings.Join(found, "; ")
}

// print writes what is known at the end. Its last line is the count.
func (s *summary) print(out io.Writer) {
	sort.Strings(s.notes)
	for _, n := range s.notes {
		fmt.Fprintf(out, "note: %s\n", n)
	}
	sort.Slice(s.skipped, func(i, j int) bool {
		a, b := s.skipped[i].id, s.skipped[j].id
		return a.pkg < b.pkg || a.pkg == b.pkg && a.test < b.test
	})
	for _, k := range s.skipped {
		fmt.Fprintf(out, "--- SKIP: %s %s: %s\n", k.id.pkg, k.id.test, k.reason)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skipped))
}
