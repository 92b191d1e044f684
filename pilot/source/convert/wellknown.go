package convert

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// wellKnown decodes messages that have a JSON form of their own.
func (d *decoder) wellKnown(m protoreflect.Message, in any, path string) (bool, *FieldError) {
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
		v, _, err := scalar(fd, in, path, d.unknown)
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

func structure(w, in any, path string) *FieldError {
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
