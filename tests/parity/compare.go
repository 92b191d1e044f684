package parity

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// recording maps a type's short name and a resource name to the resource.
type recording map[string]map[string]any

// unordered tells whether the order of a list field means nothing to a proxy.
func unordered(field string) bool {
	switch field {
	case "domains", "endpoints", "lb_endpoints", "match_typed_subject_alt_names", "match_subject_alt_names", "prefix_ranges",
		"server_names", "upgrade_configs", "virtual_hosts", "filter_chains", "subject_alt_names", "query_parameters", "headers":
		return true
	}
	return false
}

func normal(field string, v any) any {
	switch x := v.(type) {
	case map[string]any:
		o := make(map[string]any, len(x))
		for k, c := range x {
			o[k] = normal(k, c)
		}
		return o
	case []any:
		l := make([]any, len(x))
		for i, c := range x {
			l[i] = normal("", c)
		}
		if unordered(field) {
			slices.SortFunc(l, func(a, b any) int { return strings.Compare(text(a), text(b)) })
		}
		return l
	}
	return v
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func clip(v any) string {
	s := text(v)
	if len(s) > 300 {
		return s[:300] + "…"
	}
	return s
}

// differences lists the paths at which got is not want; what the recording masks equals anything.
func differences(path string, want, got any, out *[]string) {
	if want == "<unstable>" || reflect.DeepEqual(want, got) {
		return
	}
	wm, ok1 := want.(map[string]any)
	gm, ok2 := got.(map[string]any)
	if ok1 && ok2 {
		keys := map[string]any{}
		maps.Copy(keys, wm)
		maps.Copy(keys, gm)
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			w, g := wm[k], gm[k]
			switch {
			case w == nil:
				*out = append(*out, fmt.Sprintf("%s.%s: extra %s", path, k, clip(g)))
			case g == nil:
				*out = append(*out, fmt.Sprintf("%s.%s: missing %s", path, k, clip(w)))
			default:
				differences(path+"."+k, w, g, out)
			}
		}
		return
	}
	wl, ok1 := want.([]any)
	gl, ok2 := got.([]any)
	if ok1 && ok2 && len(wl) == len(gl) {
		for i := range wl {
			differences(fmt.Sprintf("%s[%d]", path, i), wl[i], gl[i], out)
		}
		return
	}
	*out = append(*out, fmt.Sprintf("%s: want %s got %s", path, clip(want), clip(got)))
}

// score is how many of the resources are equal.
type score struct{ equal, total int }

func (s *score) add(o score) { s.equal += o.equal; s.total += o.total }

func (s score) percent() float64 { return 100 * float64(s.equal) / float64(max(s.total, 1)) }

func (s score) String() string { return fmt.Sprintf("%d/%d (%.1f %%)", s.equal, s.total, s.percent()) }

// compareType scores one type of one proxy and says what differs, at most lines paths a resource.
func compareType(want, got map[string]any, lines int, say func(string)) score {
	names := map[string]any{}
	maps.Copy(names, want)
	maps.Copy(names, got)
	var s score
	for _, n := range slices.Sorted(maps.Keys(names)) {
		s.total++
		w, inWant := want[n]
		g, inGot := got[n]
		switch {
		case !inGot:
			say(fmt.Sprintf("%q: missing", n))
		case !inWant:
			say(fmt.Sprintf("%q: not in the recording", n))
		default:
			var d []string
			differences("", normal("", w), normal("", g), &d)
			if len(d) == 0 {
				s.equal++
				continue
			}
			say(fmt.Sprintf("%q: %d differences", n, len(d)))
			for _, l := range d[:min(len(d), lines)] {
				say("    " + l)
			}
		}
	}
	return s
}
