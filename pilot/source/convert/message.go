package convert

import (
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// FieldError is a mistake at one field of an object.
type FieldError struct {
	// Path leads from the root of the object: "spec.http[0].route[1].destination.port".
	Path    string
	Message string
}

// Error returns the path and the message.
func (e *FieldError) Error() string { return e.Path + ": " + e.Message }

// Unknown says what to do with fields that the message does not have.
type Unknown bool

// Clusters may be newer than we are; a file with a field that we do not know is a mistake of its writer.
const (
	RejectUnknown Unknown = false
	IgnoreUnknown Unknown = true
)

// Message decodes a JSON tree (map[string]any with int64, float64, string, bool, []any) into m, by the protobuf JSON
// mapping with Istio's additions: durations take Go's units ("1m30s"). A field that the tree has replaces the one in m
// as a whole. path is the path of the tree, for errors.
func Message(m proto.Message, tree map[string]any, path string, unknown Unknown) *FieldError {
	return (&decoder{unknown: unknown}).message(m.ProtoReflect(), tree, path)
}

type decoder struct{ unknown Unknown }

type (
	value      = protoreflect.Value
	descriptor = protoreflect.FieldDescriptor
)

func (d *decoder) message(m protoreflect.Message, tree map[string]any, path string) *FieldError {
	fields := m.Descriptor().Fields()
	var chosen map[protoreflect.OneofDescriptor]string // what the tree sets of each oneof; m may hold another member
	// Sorted, so that of two mistakes the same one is always reported.
	for _, name := range sortedKeys(tree) {
		at := join(path, name)
		fd := fields.ByJSONName(name)
		if fd == nil {
			fd = fields.ByTextName(name)
		}
		if fd == nil {
			if d.unknown == IgnoreUnknown {
				continue
			}
			return &FieldError{at, "unknown field"}
		}
		in := tree[name]
		if in == nil && !takesNull(fd) {
			continue
		}
		if o := fd.ContainingOneof(); o != nil && !o.IsSynthetic() {
			if other, ok := chosen[o]; ok {
				return &FieldError{at, fmt.Sprintf("only one of %s and %s may be set", other, name)}
			}
			if chosen == nil {
				chosen = map[protoreflect.OneofDescriptor]string{}
			}
			chosen[o] = name
		}
		v, skip, err := d.field(m, fd, in, at)
		if err != nil {
			return err
		}
		if !skip {
			m.Set(fd, v)
		}
	}
	return nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func takesNull(fd descriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value" && !fd.IsList() && !fd.IsMap()
}

// field decodes the value of one field. skip says that it is one to leave out.
func (d *decoder) field(m protoreflect.Message, fd descriptor, in any, path string) (v value, skip bool, err *FieldError) {
	switch {
	case fd.IsList():
		v, err = d.list(m.NewField(fd), fd, in, path)
		return v, false, err
	case fd.IsMap():
		v, err = d.mapping(m.NewField(fd), fd, in, path)
		return v, false, err
	}
	return d.single(func() value { return m.NewField(fd) }, fd, in, path)
}

func (d *decoder) list(v value, fd descriptor, in any, path string) (value, *FieldError) {
	items, ok := in.([]any)
	if !ok {
		return v, typeError(path, "a list", in)
	}
	list := v.List()
	for i, item := range items {
		at := path + "[" + strconv.Itoa(i) + "]"
		if item == nil && (fd.Message() == nil || fd.Message().FullName() != "google.protobuf.Value") {
			return v, &FieldError{at, "null is not allowed in a list"}
		}
		e, skip, err := d.single(list.NewElement, fd, item, at)
		if err != nil {
			return v, err
		}
		if !skip {
			list.Append(e)
		}
	}
	return v, nil
}

func (d *decoder) mapping(v value, fd descriptor, in any, path string) (value, *FieldError) {
	tree, ok := in.(map[string]any)
	if !ok {
		return v, typeError(path, "a map", in)
	}
	entries := v.Map()
	for _, name := range sortedKeys(tree) {
		at := path + "[" + name + "]"
		k, _, err := scalar(fd.MapKey(), name, at, d.unknown)
		if err != nil {
			return v, err
		}
		if tree[name] == nil {
			return v, &FieldError{at, "null is not allowed in a map"}
		}
		e, skip, err := d.single(entries.NewValue, fd.MapValue(), tree[name], at)
		if err != nil {
			return v, err
		}
		if !skip {
			entries.Set(k.MapKey(), e)
		}
	}
	return v, nil
}

func (d *decoder) single(mk func() value, fd descriptor, in any, path string) (value, bool, *FieldError) {
	if fd.Message() == nil {
		return scalar(fd, in, path, d.unknown)
	}
	v := mk()
	if done, err := d.wellKnown(v.Message(), in, path); done || err != nil {
		return v, false, err
	}
	tree, ok := in.(map[string]any)
	if !ok {
		return v, false, typeError(path, "an object", in)
	}
	return v, false, d.message(v.Message(), tree, path)
}

func typeError(path, want string, in any) *FieldError {
	message := fmt.Sprintf("%s is not %s", describe(in), want)
	switch in.(type) {
	case bool, int64, float64:
		if want == "a string" {
			message += "; YAML reads it so unless it stands in quotes"
		}
	}
	return &FieldError{path, message}
}

func describe(in any) string {
	switch x := in.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		return strconv.Quote(x[:min(len(x), 64)])
	}
	return fmt.Sprint(in)
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
