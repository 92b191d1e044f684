package parity

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"
)

// render gives a message in the form of the recordings: proto field names, enums by name, numbers as text, Any values
// opened with their type under "@type".
func render(m protoreflect.Message) any {
	name := m.Descriptor().FullName()
	if name == "google.protobuf.Any" {
		if a, ok := m.Interface().(*anypb.Any); ok {
			return renderAny(a)
		}
	}
	if strings.HasPrefix(string(name), "google.protobuf.") {
		b, err := protojson.Marshal(m.Interface())
		if err != nil {
			return err.Error()
		}
		var v any
		if err := json.Unmarshal(b, &v); err != nil {
			return err.Error()
		}
		return v
	}
	out := map[string]any{}
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		out[string(fd.Name())] = renderField(fd, v)
		return true
	})
	return out
}

func renderAny(a *anypb.Any) any {
	mt, err := protoregistry.GlobalTypes.FindMessageByURL(a.TypeUrl)
	if err == nil {
		n := mt.New()
		if proto.Unmarshal(a.Value, n.Interface()) == nil {
			if o, ok := render(n).(map[string]any); ok {
				o["@type"] = a.TypeUrl
				return o
			}
			return map[string]any{"@type": a.TypeUrl, "value": render(n)}
		}
	}
	return map[string]any{"@type": a.TypeUrl, "value_base64": base64.StdEncoding.EncodeToString(a.Value)}
}

func renderField(fd protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case fd.IsMap():
		o := map[string]any{}
		v.Map().Range(func(k protoreflect.MapKey, mv protoreflect.Value) bool {
			o[k.String()] = renderScalar(fd.MapValue(), mv)
			return true
		})
		return o
	case fd.IsList():
		var l []any
		for i := range v.List().Len() {
			l = append(l, renderScalar(fd, v.List().Get(i)))
		}
		return l
	}
	return renderScalar(fd, v)
}

func renderScalar(fd protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return render(v.Message())
	case protoreflect.EnumKind:
		if e := fd.Enum().Values().ByNumber(v.Enum()); e != nil {
			return string(e.Name())
		}
		return int(v.Enum())
	case protoreflect.BytesKind:
		return base64.StdEncoding.EncodeToString(v.Bytes())
	case protoreflect.StringKind:
		return v.String()
	case protoreflect.BoolKind:
		return v.Bool()
	default:
		return fmt.Sprint(v.Interface())
	}
}
