package fuzz

import (
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/validate"
)

// mended takes out of an object, one by one, what validation finds wrong, and tells whether something valid is left.
func mended(o *model.Object) bool {
	spec, ok := o.Spec.(proto.Message)
	if !ok {
		return false
	}
	for range 200 {
		path, ok := firstError(o)
		if !ok {
			return true
		}
		if !cut(spec.ProtoReflect(), steps(path)) {
			return false
		}
	}
	return false
}

func firstError(o *model.Object) (path string, found bool) {
	for _, i := range validate.Object(o) {
		if !i.Warning {
			return i.Field, true
		}
	}
	return "", false
}

// steps splits a path such as "spec.http[0].headers[x-y].set" behind "spec".
func steps(path string) []string {
	var out []string
	for path != "" {
		if key, rest, ok := strings.Cut(path, "]"); ok && strings.HasPrefix(key, "[") {
			out, path = append(out, key[1:]), strings.TrimPrefix(rest, ".")
			continue
		}
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		out, path = append(out, path[:end]), strings.TrimPrefix(path[end:], ".")
	}
	if len(out) > 0 && out[0] == "spec" {
		return out[1:]
	}
	return out
}

// cut takes what a path leads to out of m, or the innermost that is there of what holds it. It reports whether anything
// went.
func cut(m protoreflect.Message, path []string) bool {
	if len(path) == 0 {
		return false
	}
	f := m.Descriptor().Fields().ByJSONName(path[0])
	if f == nil || !m.Has(f) {
		return false
	}
	switch {
	case f.IsList() && len(path) > 1:
		list := m.Mutable(f).List()
		i, err := strconv.Atoi(path[1])
		if err != nil || i >= list.Len() {
			break
		}
		if f.Kind() == protoreflect.MessageKind && cut(list.Get(i).Message(), path[2:]) {
			return true
		}
		for ; i < list.Len()-1; i++ {
			list.Set(i, list.Get(i+1))
		}
		list.Truncate(list.Len() - 1)
		return true
	case f.IsMap() && len(path) > 1 && f.MapKey().Kind() == protoreflect.StringKind:
		key := protoreflect.ValueOfString(path[1]).MapKey()
		values := m.Mutable(f).Map()
		if !values.Has(key) {
			break
		}
		if f.MapValue().Kind() == protoreflect.MessageKind && cut(values.Get(key).Message(), path[2:]) {
			return true
		}
		values.Clear(key)
		return true
	case f.Kind() == protoreflect.MessageKind && !f.IsList() && !f.IsMap() && cut(m.Mutable(f).Message(), path[1:]):
		return true
	}
	m.Clear(f)
	return true
}
