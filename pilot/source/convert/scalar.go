package convert

import (
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// scalar decodes a value that is not a message. skip says that the value is one to leave out.
func scalar(fd descriptor, in any, path string, unknown Unknown) (v value, skip bool, err *FieldError) {
	switch fd.Kind() {
	case protoreflect.BoolKind:
		switch b := in.(type) {
		case bool:
			return protoreflect.ValueOfBool(b), false, nil
		case string: // a map key, or a letter that YAML 1.1 takes for a boolean
			switch b {
			case "true", "y", "Y":
				return protoreflect.ValueOfBool(true), false, nil
			case "false", "n", "N":
				return protoreflect.ValueOfBool(false), false, nil
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

func bytesOf(in any, path string) (v value, skip bool, err *FieldError) {
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

func enumOf(ed protoreflect.EnumDescriptor, in any, path string, unknown Unknown) (v value, skip bool, err *FieldError) {
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

func integerOf(kind protoreflect.Kind, in any, path string) (v value, skip bool, err *FieldError) {
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
