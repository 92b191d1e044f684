package patch

import (
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// merge puts what src sets into dst: lists are appended, or take the place of dst's; entries of maps, durations and
// messages in Any replace. src stays as it is.
func merge(dst, src proto.Message, replaceLists bool) {
	mergeMessage(dst.ProtoReflect(), src.ProtoReflect(), replaceLists)
}

func mergeMessage(dst, src protoreflect.Message, replaceLists bool) {
	src.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsList():
			if replaceLists {
				dst.Clear(f)
			}
			appendList(dst.Mutable(f).List(), v.List(), f)
		case f.IsMap():
			into := dst.Mutable(f).Map()
			v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
				into.Set(k, copied(v, f.MapValue()))
				return true
			})
		case f.Kind() == protoreflect.MessageKind && !replacedWhole(f.Message()):
			mergeMessage(dst.Mutable(f).Message(), v.Message(), replaceLists)
		default:
			dst.Set(f, copied(v, f))
		}
		return true
	})
}

func replacedWhole(d protoreflect.MessageDescriptor) bool {
	return d.FullName() == "google.protobuf.Duration" || d.FullName() == "google.protobuf.Any"
}

func appendList(into, from protoreflect.List, f protoreflect.FieldDescriptor) {
	for i := range from.Len() {
		into.Append(copied(from.Get(i), f))
	}
}

// copied returns a value that shares nothing with v.
func copied(v protoreflect.Value, f protoreflect.FieldDescriptor) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return protoreflect.ValueOfMessage(proto.Clone(v.Message().Interface()).ProtoReflect())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(append([]byte(nil), v.Bytes()...))
	default:
		return v
	}
}

// mergeAny merges packed messages, which must be of one type. Lists are appended.
func mergeAny(dst, src *anypb.Any) (*anypb.Any, error) {
	if dst == nil {
		return nil, errors.New("there is no configuration to merge into")
	}
	if dst.MessageName() != src.MessageName() {
		return nil, fmt.Errorf("a %s does not merge into a %s", src.MessageName(), dst.MessageName())
	}
	a, err := dst.UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("what there is: %w", err)
	}
	b, err := src.UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("the value: %w", err)
	}
	merge(a, b, false)
	if err := check(a); err != nil {
		return nil, fmt.Errorf("the result is invalid: %w", err)
	}
	return packed(a)
}

func packed(m proto.Message) (*anypb.Any, error) {
	out := &anypb.Any{}
	if err := anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return out, nil
}

// mergeSocket returns a transport socket with a patch's merged in: one of the same name deeply, any other replaces it.
func mergeSocket(dst, src *corev3.TransportSocket) (*corev3.TransportSocket, error) {
	if dst == nil || dst.GetName() != src.GetName() || src.GetTypedConfig() == nil {
		return cloned(src), nil
	}
	a, err := mergeAny(dst.GetTypedConfig(), src.GetTypedConfig())
	if err != nil {
		return nil, fmt.Errorf("the transport socket %q: %w", src.GetName(), err)
	}
	return &corev3.TransportSocket{Name: dst.GetName(), ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: a}}, nil
}

func cloned[M proto.Message](m M) M {
	out, _ := proto.Clone(m).(M)
	return out
}
