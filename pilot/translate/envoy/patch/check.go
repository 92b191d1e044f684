package patch

import (
	"errors"
	"fmt"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// check tells why Envoy would refuse m: translate.Check of it and of all that is packed in it. Messages of unknown
// types are left alone.
func check(m proto.Message) error {
	if err := translate.Check(m); err != nil {
		return err
	}
	if c, ok := m.(*clusterv3.Cluster); ok {
		if err := checkFields(c); err != nil {
			return err
		}
	}
	if err := checkWhole(m); err != nil {
		return err
	}
	return eachAny(m.ProtoReflect(), func(a *anypb.Any) error {
		if a.GetTypeUrl() == "" {
			return errors.New("a message without @type")
		}
		inner, err := a.UnmarshalNew()
		if errors.Is(err, protoregistry.NotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", a.GetTypeUrl(), err)
		}
		return check(inner)
	})
}

// checkFields looks into the parts of a cluster, which translate.Check takes on trust.
func checkFields(c *clusterv3.Cluster) error {
	var err error
	c.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if f.Kind() == protoreflect.MessageKind && !f.IsList() && !f.IsMap() {
			if err = translate.Check(v.Message().Interface()); err != nil {
				err = fmt.Errorf("%s: %w", f.Name(), err)
			}
		}
		return err == nil
	})
	return err
}

// checkWhole checks what rules of single fields do not say, but Envoy enforces for the whole resource.
func checkWhole(m proto.Message) error {
	switch m := m.(type) {
	case *listenerv3.Listener:
		return checkListener(m)
	case *routev3.RouteConfiguration:
		seen := map[string]string{}
		for _, h := range m.GetVirtualHosts() {
			for _, d := range h.GetDomains() {
				d = strings.ToLower(d)
				if other, twice := seen[d]; twice {
					return fmt.Errorf("the domain %q is in the virtual hosts %q and %q", d, other, h.GetName())
				}
				seen[d] = h.GetName()
			}
		}
	}
	return nil
}

func checkListener(l *listenerv3.Listener) error {
	udp := l.GetAddress().GetSocketAddress().GetProtocol() == corev3.SocketAddress_UDP
	if len(l.GetFilterChains()) == 0 && l.GetDefaultFilterChain() == nil && !udp && l.GetApiListener() == nil {
		return errors.New("a listener without filter chains")
	}
	if l.GetFilterChainMatcher() != nil {
		return nil
	}
	options := proto.MarshalOptions{Deterministic: true}
	seen := map[string]string{}
	for _, c := range l.GetFilterChains() {
		b, err := options.Marshal(c.GetFilterChainMatch())
		if err != nil {
			return fmt.Errorf("the filter chain %q: %w", c.GetName(), err)
		}
		if other, twice := seen[string(b)]; twice {
			return fmt.Errorf("the filter chains %q and %q match the same", other, c.GetName())
		}
		seen[string(b)] = c.GetName()
	}
	return nil
}

// eachAny calls f for every Any in m, those in an Any excepted.
func eachAny(m protoreflect.Message, f func(*anypb.Any) error) error {
	switch a := m.Interface().(type) {
	case *anypb.Any:
		return f(a)
	default:
	}
	var err error
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Kind() == protoreflect.MessageKind {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
					err = eachAny(v.Message(), f)
					return err == nil
				})
			}
		case fd.Kind() != protoreflect.MessageKind:
		case fd.IsList():
			for i := 0; err == nil && i < v.List().Len(); i++ {
				err = eachAny(v.List().Get(i).Message(), f)
			}
		default:
			err = eachAny(v.Message(), f)
		}
		return err == nil
	})
	return err
}
