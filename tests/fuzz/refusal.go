package fuzz

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// refusal tells why Envoy would refuse m, or something that is packed in it.
func refusal(m proto.Message) error {
	if v, ok := m.(interface{ ValidateAll() error }); ok {
		if err := v.ValidateAll(); err != nil {
			return err
		}
	}
	if err := translate.Check(m); err != nil {
		return err
	}
	var all []error
	err := protorange.Range(m.ProtoReflect(), func(v protopath.Values) error {
		message, ok := v.Index(-1).Value.Interface().(protoreflect.Message)
		if !ok {
			return nil
		}
		a, ok := message.Interface().(*anypb.Any)
		if !ok {
			return nil
		}
		inner, err := a.UnmarshalNew()
		if err == nil {
			err = refusal(inner)
		}
		if err != nil {
			all = append(all, fmt.Errorf("%s: %w", a.GetTypeUrl(), err))
		}
		return protorange.Break
	})
	return errors.Join(append(all, err)...)
}
