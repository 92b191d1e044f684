package patch

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
)

// TestGolden compares what each case's EnvoyFilters change, line by line, with what was reviewed.
func TestGolden(t *testing.T) {
	t.Parallel()
	fixture.EachArchive(t, func(t *testing.T, a *fixture.Archive) {
		var proxies []struct {
			Name   string
			Node   string
			Routes []string
		}
		if err := yaml.Unmarshal([]byte(a.Text("proxies.yaml")), &proxies); err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, patchedSlots(), a.Text("input.yaml"))
		got, names := map[string]string{}, []string{}
		before := map[string]string{}
		for _, p := range proxies {
			before[p.Name] = w.config(t, w.view(t, p.Node), p.Routes...).render(t)
		}
		w.apply(t, a.Text("filters.yaml"))
		for _, p := range proxies {
			c := w.config(t, w.view(t, p.Node), p.Routes...)
			text := changes(strings.Split(before[p.Name], "\n"), strings.Split(c.render(t), "\n"))
			for _, problem := range c.problems {
				text += "problem: " + stable(problem) + "\n"
			}
			names = append(names, p.Name)
			got[p.Name] = text
		}
		a.Check(t, names, got)
	})
}

// stable takes the spaces out that protobuf's errors vary, so that nobody relies on their text.
func stable(problem string) string { return strings.ReplaceAll(problem, "\u00a0", " ") }

// changes lists the lines that differ, each run under the resource it is in and behind the line before it.
func changes(a, b []string) string {
	length := make([][]int, len(a)+1) // of the longest common part of a[i:] and b[j:]
	for i := range length {
		length[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			length[i][j] = max(length[i+1][j], length[i][j+1])
			if a[i] == b[j] {
				length[i][j] = length[i+1][j+1] + 1
			}
		}
	}
	var out strings.Builder
	resource, told, last := "", "", ""
	line := func(sign, text string) {
		if resource != told {
			out.WriteString("= " + resource + "\n")
			told = resource
		}
		if last != "" && last != resource {
			out.WriteString("  " + last + "\n")
		}
		last = ""
		out.WriteString(sign + " " + text + "\n")
	}
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			last = a[i]
			if !strings.HasPrefix(last, " ") {
				resource = last
			}
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && length[i+1][j] >= length[i][j+1]:
			line("-", a[i])
			i++
		default:
			line("+", b[j])
			j++
		}
	}
	return out.String()
}
