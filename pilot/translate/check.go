package translate

import (
	"errors"
	"fmt"
	"math"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
)

// MaxSeconds is the longest duration that Envoy takes: nanoseconds that fit in 64 bits, with room for the fraction.
const MaxSeconds = math.MaxInt64/1_000_000_000 - 1

// validator is what generated message types offer.
type validator interface{ ValidateAll() error }

// Check tells why Envoy would refuse m: a rule of the message types is broken, or one that they do not state, which the
// configuration's loading enforces by throwing away all that came along. Messages in Any are checked by Pack.
func Check(m proto.Message) error {
	if v, ok := m.(validator); ok {
		if err := v.ValidateAll(); err != nil {
			return err
		}
	}
	// The two types that are made by the ten thousand are not gone through: their translators keep the numbers in range,
	// and of a cluster only what was packed is left to look at.
	switch m := m.(type) {
	case *endpointv3.ClusterLoadAssignment:
		return nil
	case *clusterv3.Cluster:
		return checkCluster(m)
	}
	return checkMessage(m.ProtoReflect())
}

func checkCluster(c *clusterv3.Cluster) error {
	parts := make([]*anypb.Any, 0, 8)
	parts = append(parts, c.GetTransportSocket().GetTypedConfig(), c.GetClusterType().GetTypedConfig(), c.GetTypedDnsResolverConfig().GetTypedConfig())
	for _, m := range c.GetTransportSocketMatches() {
		parts = append(parts, m.GetTransportSocket().GetTypedConfig())
	}
	for _, o := range c.GetTypedExtensionProtocolOptions() {
		parts = append(parts, o)
	}
	for _, p := range parts {
		if err := refused(p); err != nil {
			return err
		}
	}
	return nil
}

// Pack returns m in an Any, deterministically. A message that fails Check becomes one that fails whatever it is put in.
func Pack(m proto.Message) *anypb.Any {
	out := &anypb.Any{}
	err := Check(m)
	if err == nil {
		err = anypb.MarshalFrom(out, m, proto.MarshalOptions{Deterministic: true})
	}
	if err != nil {
		return &anypb.Any{Value: []byte(err.Error())}
	}
	return out
}

func checkMessage(m protoreflect.Message) error {
	switch m.Descriptor().FullName() {
	case "google.protobuf.Any":
		return checkAny(m)
	case "google.protobuf.Duration":
		return checkDuration(m)
	case "google.protobuf.Struct", "envoy.config.core.v3.Metadata":
		return nil
	case "envoy.type.matcher.v3.RegexMatcher":
		return format.Regex(m.Get(m.Descriptor().Fields().ByName("regex")).String())
	}
	var err error
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		err = checkField(f, v)
		return err == nil
	})
	return err
}

func checkField(f protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch f.Kind() {
	case protoreflect.DoubleKind, protoreflect.FloatKind:
		if !f.IsList() && (math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0)) {
			return fmt.Errorf("%s: not a finite number", f.Name())
		}
		return nil
	case protoreflect.MessageKind:
	default:
		return nil
	}
	var err error
	switch {
	case f.IsList():
		for i := range v.List().Len() {
			if err = checkMessage(v.List().Get(i).Message()); err != nil {
				break
			}
		}
	case !f.IsMap():
		err = checkMessage(v.Message())
	case f.MapValue().Kind() == protoreflect.MessageKind:
		v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
			err = checkMessage(v.Message())
			return err == nil
		})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.Name(), err)
	}
	return nil
}

// checkAny finds what Pack refused.
func checkAny(m protoreflect.Message) error {
	a, _ := m.Interface().(*anypb.Any)
	return refused(a)
}

func refused(a *anypb.Any) error {
	if a == nil || a.GetTypeUrl() != "" {
		return nil
	}
	return errors.New(string(a.GetValue()))
}

func checkDuration(m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	seconds, nanos := m.Get(fields.ByNumber(1)).Int(), m.Get(fields.ByNumber(2)).Int()
	if seconds < 0 || nanos < 0 || seconds > MaxSeconds || nanos > 999_999_999 {
		return fmt.Errorf("a duration of %d s and %d ns", seconds, nanos)
	}
	return nil
}
