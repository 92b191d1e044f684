package convert

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
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

func (d *decoder) message(m protoreflect.Message, tree map[string]any, path string) *FieldError {
	fields := m.Descriptor().Fields()
	// Sorted, so that of two mistakes the same one is always reported.
	for _, name := range sortedKeys(tree) {
		at := path + "." + name
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
		if o := fd.ContainingOneof(); o != nil && m.WhichOneof(o) != nil && m.WhichOneof(o) != fd && !o.IsSynthetic() {
			return &FieldError{at, fmt.Sprintf("only one of %s and %s may be set", m.WhichOneof(o).JSONName(), name)}
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

func takesNull(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == "google.protobuf.Value" && !fd.IsList() && !fd.IsMap()
}

func (d *decoder) field(m protoreflect.Message, fd protoreflect.FieldDescriptor, in any, path string) (v protoreflect.Value, skip bool, err *FieldError) {
	switch {
	case fd.IsList():
		v, err = d.list(m.NewField(fd), fd, in, path)
		return v, false, err
	case fd.IsMap():
		v, err = d.mapping(m.NewField(fd), fd, in, path)
		return v, false, err
	}
	return d.single(func() protoreflect.Value { return m.NewField(fd) }, fd, in, path)
}

func (d *decoder) list(v protoreflect.Value, fd protoreflect.FieldDescriptor, in any, path string) (protoreflect.Value, *FieldError) {
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

func (d *decoder) mapping(v protoreflect.Value, fd protoreflect.FieldDescriptor, in any, path string) (protoreflect.Value, *FieldError) {
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

func (d *decoder) single(mk func() protoreflect.Value, fd protoreflect.FieldDescriptor, in any, path string) (protoreflect.Value, bool, *FieldError) {
	if fd.Message() == nil {
		return scalar(fd, in, path, d.unknown)
	}
	v := mk()
	if done, err := wellKnown(v.Message(), in, path, d.unknown); done || err != nil {
		return v, false, err
	}
	tree, ok := in.(map[string]any)
	if !ok {
		return v, false, typeError(path, "an object", in)
	}
	return v, false, d.message(v.Message(), tree, path)
}

// wellKnown decodes messages that have a JSON form of their own.
func wellKnown(m protoreflect.Message, in any, path string, unknown Unknown) (bool, *FieldError) {
	switch w := m.Interface().(type) {
	case *durationpb.Duration:
		s, ok := in.(string)
		if !ok {
			return true, typeError(path, "a duration such as 5s", in)
		}
		got, err := time.ParseDuration(s)
		if err != nil {
			return true, &FieldError{path, fmt.Sprintf("%q is not a duration such as 5s", s)}
		}
		proto.Merge(w, durationpb.New(got))
		return true, nil
	case *timestamppb.Timestamp:
		s, ok := in.(string)
		if !ok {
			return true, typeError(path, "a time such as 2006-01-02T15:04:05Z", in)
		}
		got, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return true, &FieldError{path, fmt.Sprintf("%q is not a time such as 2006-01-02T15:04:05Z", s)}
		}
		proto.Merge(w, timestamppb.New(got))
		return true, nil
	case *structpb.Struct, *structpb.Value, *structpb.ListValue:
		return true, structure(w, in, path)
	}
	if fd := wrapped(m); fd != nil {
		v, _, err := scalar(fd, in, path, unknown)
		if err == nil {
			m.Set(fd, v)
		}
		return true, err
	}
	return false, nil
}

// wrapped returns the value field of a wrapper message (google.protobuf.BoolValue, ...), or nil.
func wrapped(m protoreflect.Message) protoreflect.FieldDescriptor {
	d := m.Descriptor()
	if d.ParentFile().Path() != "google/protobuf/wrappers.proto" {
		return nil
	}
	return d.Fields().ByName("value")
}

func structure(w any, in any, path string) *FieldError {
	v, err := structpb.NewValue(in)
	if err != nil {
		return &FieldError{path, err.Error()}
	}
	switch w := w.(type) {
	case *structpb.Value:
		w.Kind = v.Kind
	case *structpb.Struct:
		if v.GetStructValue() == nil {
			return typeError(path, "an object", in)
		}
		w.Fields = v.GetStructValue().Fields
	case *structpb.ListValue:
		if v.GetListValue() == nil {
			return typeError(path, "a list", in)
		}
		w.Values = v.GetListValue().Values
	}
	return nil
}

// scalar decodes a value that is not a message. skip says that the value is one to leave out.
func scalar(fd protoreflect.FieldDescriptor, in any, path string, unknown Unknown) (v protoreflect.Value, skip bool, err *FieldError) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		switch b := in.(type) {
		case bool:
			return protoreflect.ValueOfBool(b), false, nil
		case string: // a map key
			if b == "true" || b == "false" {
				return protoreflect.ValueOfBool(b == "true"), false, nil
			}
		}
		return v, false, typeError(path, "true or false", in)
	case protoreflect.StringKind:
		if s, ok := in.(string); ok {
			return protoreflect.ValueOfString(strings.ToValidUTF8(s, "\uFFFD")), false, nil
		}
		return v, false, typeError(path, "a string", in)
	case protoreflect.BytesKind:
		return bytesOf(in, path)
	case protoreflect.EnumKind:
		return enumOf(fd.Enum(), in, path, unknown)
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		f, ok := float(in)
		if !ok {
			return v, false, typeError(path, "a number", in)
		}
		if fd.Kind() == protoreflect.FloatKind {
			return protoreflect.ValueOfFloat32(float32(f)), false, nil
		}
		return protoreflect.ValueOfFloat64(f), false, nil
	default:
		return integerOf(fd.Kind(), in, path)
	}
}

func bytesOf(in any, path string) (v protoreflect.Value, skip bool, err *FieldError) {
	s, ok := in.(string)
	if !ok {
		return v, false, typeError(path, "base64 text", in)
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if b, err := enc.DecodeString(s); err == nil {
			return protoreflect.ValueOfBytes(b), false, nil
		}
	}
	return v, false, &FieldError{path, "not base64"}
}

func enumOf(ed protoreflect.EnumDescriptor, in any, path string, unknown Unknown) (v protoreflect.Value, skip bool, err *FieldError) {
	switch e := in.(type) {
	case string:
		if ev := ed.Values().ByName(protoreflect.Name(e)); ev != nil {
			return protoreflect.ValueOfEnum(ev.Number()), false, nil
		}
		if unknown == IgnoreUnknown {
			return v, true, nil
		}
		return v, false, &FieldError{path, fmt.Sprintf("%q is none of %s", e, enumNames(ed))}
	case int64:
		if e >= math.MinInt32 && e <= math.MaxInt32 {
			return protoreflect.ValueOfEnum(protoreflect.EnumNumber(e)), false, nil
		}
	}
	return v, false, typeError(path, "one of "+enumNames(ed), in)
}

func enumNames(ed protoreflect.EnumDescriptor) string {
	names := make([]string, 0, ed.Values().Len())
	for i := range ed.Values().Len() {
		names = append(names, string(ed.Values().Get(i).Name()))
	}
	return strings.Join(names, ", ")
}

func float(in any) (float64, bool) {
	switch n := in.(type) {
	case float64:
		return n, true
	case int64:
		return float64(n), true
	case string:
		f, err := strconv.ParseFloat(n, 64)
		return f, err == nil
	}
	return 0, false
}

func integerOf(kind protoreflect.Kind, in any, path string) (v protoreflect.Value, skip bool, err *FieldError) {
	const what = "a whole number"
	var n int64
	switch x := in.(type) {
	case int64:
		n = x
	case float64:
		if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
			return v, false, typeError(path, what, in)
		}
		n = int64(x)
	case string:
		got, err := strconv.ParseInt(x, 10, 64)
		if err != nil {
			return v, false, typeError(path, what, in)
		}
		n = got
	default:
		return v, false, typeError(path, what, in)
	}
	rangeError := &FieldError{path, fmt.Sprintf("%d is out of range", n)}
	switch kind {
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		if n < math.MinInt32 || n > math.MaxInt32 {
			return v, false, rangeError
		}
		return protoreflect.ValueOfInt32(int32(n)), false, nil
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		if n < 0 || n > math.MaxUint32 {
			return v, false, rangeError
		}
		return protoreflect.ValueOfUint32(uint32(n)), false, nil
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		if n < 0 {
			return v, false, rangeError
		}
		return protoreflect.ValueOfUint64(uint64(n)), false, nil
	}
	return protoreflect.ValueOfInt64(n), false, nil
}

func typeError(path, want string, in any) *FieldError {
	return &FieldError{path, fmt.Sprintf("%s is not %s", describe(in), want)}
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
