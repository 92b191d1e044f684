package cases

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// claim is a line "TYPE/RESOURCE [PATH] OPERATOR [VALUE]" on a resource written as JSON with proto field names.
//
// A path is made of steps separated by "/": a field of each object so far ("filters"; lists are looked through), "**" for
// everything below and the object itself, "0" (any number) for an element, and "[field=text]" for the objects among them
// whose field is the text. The operators:
//
//	present, absent   whether there is such a resource, or anything at the path
//	= VALUE           the one thing there, or the list of all, is the value (YAML)
//	# N               how many there are; the length, if it is one list
//	has, lacks VALUE  whether the value is among them, or among the elements of lists there
//	~ REGEXP          whether the expression matches the JSON of what is there
type claim struct {
	text, kind, name, path, operator, value string
}

func operators() []string {
	return []string{"present", "absent", "=", "#", "has", "lacks", "~"}
}

// claimsOf reads claims. Empty lines and those that begin with "//" are nothing.
func claimsOf(t *testing.T, text string) []*claim {
	t.Helper()
	var out []*claim
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "//") {
			continue
		}
		k := &claim{text: line}
		resource, rest, _ := strings.Cut(line, " ")
		k.kind, k.name, _ = strings.Cut(resource, "/")
		word, after, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if !slices.Contains(operators(), word) {
			k.path = word
			word, after, _ = strings.Cut(strings.TrimSpace(after), " ")
		}
		k.operator, k.value = word, strings.TrimSpace(after)
		if !slices.Contains(operators(), word) || typeURLs()[k.kind] == "" {
			t.Fatalf("%s: no claim", line)
		}
		out = append(out, k)
	}
	return out
}

// check returns why the claim is wrong, "" if it is right.
func (k *claim) check(all map[string]map[string]any) string {
	resource, ok := all[k.kind][k.name]
	if !ok && k.operator == "absent" && k.path == "" {
		return ""
	}
	if !ok {
		return fmt.Sprintf("there is none; there are %q", slices.Sorted(maps.Keys(all[k.kind])))
	}
	found := []any{resource}
	for step := range strings.SplitSeq(k.path, "/") {
		if step != "" {
			found = walk(found, step)
		}
	}
	right, err := k.holds(found)
	switch {
	case err != nil:
		return err.Error()
	case right:
		return ""
	}
	if len(found) == 0 && k.path != "" {
		return "nothing is there, but: " + short(written(resource))
	}
	return "there is " + short(written(found))
}

func (k *claim) holds(found []any) (bool, error) {
	var want any
	if k.operator == "=" || k.operator == "has" || k.operator == "lacks" || k.operator == "#" {
		if err := yaml.Unmarshal([]byte(k.value), &want); err != nil {
			return false, fmt.Errorf("the value: %w", err)
		}
	}
	same := func(v any) bool { return reflect.DeepEqual(v, want) }
	flat := elements(found)
	switch k.operator {
	case "present":
		return len(found) > 0, nil
	case "absent":
		return len(found) == 0, nil
	case "=":
		return len(found) == 1 && same(found[0]) || same(found), nil
	case "#":
		return same(float64(len(flat))), nil
	case "has":
		return slices.ContainsFunc(flat, same), nil
	case "lacks":
		return !slices.ContainsFunc(flat, same), nil
	}
	re, err := regexp.Compile(k.value)
	if err != nil {
		return false, err
	}
	return re.MatchString(written(found)), nil
}

// elements looks through lists.
func elements(found []any) []any {
	out := []any{}
	for _, v := range found {
		if l, ok := v.([]any); ok {
			out = append(out, elements(l)...)
		} else {
			out = append(out, v)
		}
	}
	return out
}

// walk makes one step of a path.
func walk(from []any, step string) []any {
	out := []any{}
	if step == "**" {
		for _, v := range from {
			out = descend(out, v)
		}
		return out
	}
	if i := strings.IndexFunc(step, func(r rune) bool { return r < '0' || r > '9' }); i < 0 {
		n := 0
		_, _ = fmt.Sscan(step, &n)
		if all := elements(from); n < len(all) {
			out = append(out, all[n])
		}
		return out
	}
	field, text, filter := step, "", strings.HasPrefix(step, "[")
	if filter {
		field, text, _ = strings.Cut(step[1:len(step)-1], "=")
	}
	for _, v := range elements(from) {
		o, ok := v.(map[string]any)
		if !ok {
			continue
		}
		inner, ok := o[field]
		switch {
		case filter && fmt.Sprint(inner) == text:
			out = append(out, v)
		case ok && !filter:
			out = append(out, inner)
		}
	}
	return out
}

func descend(out []any, v any) []any {
	switch v := v.(type) {
	case map[string]any:
		out = append(out, v)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out = descend(out, v[k])
		}
	case []any:
		for _, e := range v {
			out = descend(out, e)
		}
	}
	return out
}

func written(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}

// short cuts what nobody would read.
func short(text string) string {
	const enough = 1500
	if len(text) > enough {
		return text[:enough] + " ..."
	}
	return text
}

// typeURLs are the types by the names that claims use.
func typeURLs() map[string]string {
	return map[string]string{
		"cds": translate.ClusterType, "eds": translate.EndpointType, "lds": translate.ListenerType, "rds": translate.RouteType,
		"ecds": translate.ExtensionType, "nds": translate.NameTableType,
	}
}

// values are resources as JSON values. A name table, of which there is one, is called "table".
func values(t *testing.T, got offline.Resources) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for short, url := range typeURLs() {
		out[short] = map[string]any{}
		for name, r := range got[url] {
			text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(r.Message)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			var v any
			if err := json.Unmarshal(text, &v); err != nil {
				t.Fatal(err)
			}
			if short == "nds" {
				name = "table"
			}
			out[short][name] = v
		}
	}
	return out
}
