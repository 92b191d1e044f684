package translate

import (
	"errors"
	"fmt"
	"math"
	"regexp/syntax"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// maxSeconds is the longest duration that Envoy takes: nanoseconds that fit in 64 bits, with room for the fraction.
const maxSeconds = math.MaxInt64/1_000_000_000 - 1

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
	return checkMessage(m.ProtoReflect())
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
		return CheckRegex(m.Get(m.Descriptor().Fields().ByName("regex")).String())
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
	a, ok := m.Interface().(*anypb.Any)
	if !ok || a.GetTypeUrl() != "" {
		return nil
	}
	return errors.New(string(a.GetValue()))
}

func checkDuration(m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	seconds, nanos := m.Get(fields.ByNumber(1)).Int(), m.Get(fields.ByNumber(2)).Int()
	if seconds < 0 || nanos < 0 || seconds > maxSeconds || nanos > 999_999_999 {
		return fmt.Errorf("a duration of %d s and %d ns", seconds, nanos)
	}
	return nil
}

// maxProgram is the size up to which a regular expression stays below RE2's 32768 instructions, which Istio's bootstrap
// allows: where Go needs one for a class of characters, RE2 needs several.
const maxProgram = 5000

// CheckRegex tells why Envoy would refuse a regular expression. Its syntax is RE2's, which is Go's, but on bytes; the
// program's size is looked at where a short text can make a large one.
func CheckRegex(text string) error {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return err
	}
	if wideEscape(text) {
		return errors.New("a character beyond \\xff")
	}
	if len(text) <= maxProgram/5 && !strings.Contains(text, "{") {
		return nil
	}
	prog, err := syntax.Compile(re.Simplify())
	if err == nil && len(prog.Inst) > maxProgram {
		err = fmt.Errorf("a program of %d instructions", len(prog.Inst))
	}
	return err
}

// wideEscape finds an escape such as \x{100}, which Envoy's RE2 cannot mean: it works on bytes.
func wideEscape(text string) bool {
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 || i+1 >= len(text) {
			return false
		}
		escape := text[i+1:]
		text = escape[1:]
		if digits, ok := strings.CutPrefix(escape, "x{"); ok {
			digits, _, _ = strings.Cut(digits, "}")
			if len(strings.TrimLeft(digits, "0")) > 2 {
				return true
			}
		}
	}
}
