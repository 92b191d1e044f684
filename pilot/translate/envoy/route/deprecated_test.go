package route

import (
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"
)

// deprecated lists the deprecated fields that are set in m and all it holds.
func deprecated(m protoreflect.Message) []string {
	if a, ok := m.Interface().(*anypb.Any); ok {
		inner, err := a.UnmarshalNew()
		if err != nil {
			return []string{err.Error()}
		}
		return deprecated(inner.ProtoReflect())
	}
	var out []string
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if o, ok := f.Options().(*descriptorpb.FieldOptions); ok && o.GetDeprecated() {
			out = append(out, string(f.FullName()))
		}
		each(f, v, func(inner protoreflect.Message) { out = append(out, deprecated(inner)...) })
		return true
	})
	return out
}

// each calls do for every message that a field holds.
func each(f protoreflect.FieldDescriptor, v protoreflect.Value, do func(protoreflect.Message)) {
	switch {
	case f.IsMap():
		if f.MapValue().Message() != nil {
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				do(v.Message())
				return true
			})
		}
	case f.Message() == nil:
	case f.IsList():
		for i := range v.List().Len() {
			do(v.List().Get(i).Message())
		}
	default:
		do(v.Message())
	}
}
