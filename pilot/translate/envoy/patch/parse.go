package patch

import (
	"errors"
	"fmt"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	// values may be of any type of Envoy's API
	_ "github.com/mizzen-mesh/mizzen/pilot/translate/envoy/patch/linked"
)

// patch is one patch of an EnvoyFilter, read. It is immutable.
type patch struct {
	object  model.ObjectKey
	index   int
	applyTo networking.EnvoyFilter_ApplyTo
	op      networking.EnvoyFilter_Patch_Operation
	context networking.EnvoyFilter_PatchContext
	match   *networking.EnvoyFilter_EnvoyConfigObjectMatch
	// value is of the type that applyTo says; nil for what needs none.
	value proto.Message
	// err tells why the patch cannot be applied at all.
	err error
	// warning tells what of an applicable patch is ignored.
	warning error
}

// String names the patch for people.
func (p *patch) String() string { return fmt.Sprintf("%s configPatches[%d]", p.object, p.index) }

// usable tells whether the patch is to be tried in a context.
func (p *patch) usable(in networking.EnvoyFilter_PatchContext) bool {
	return p.err == nil && p.in(in)
}

func (p *patch) in(context networking.EnvoyFilter_PatchContext) bool {
	return p.context == networking.EnvoyFilter_ANY || p.context == context
}

func (p *patch) merges() bool {
	return p.op == networking.EnvoyFilter_Patch_MERGE || p.replacesLists()
}

func (p *patch) replacesLists() bool {
	return p.op == networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST
}

// newMessage returns an empty message of what a patch is applied to, nil if that is none of ours.
func newMessage(to networking.EnvoyFilter_ApplyTo) proto.Message {
	switch to {
	case networking.EnvoyFilter_CLUSTER:
		return &clusterv3.Cluster{}
	case networking.EnvoyFilter_LISTENER:
		return &listenerv3.Listener{}
	case networking.EnvoyFilter_LISTENER_FILTER:
		return &listenerv3.ListenerFilter{}
	case networking.EnvoyFilter_FILTER_CHAIN:
		return &listenerv3.FilterChain{}
	case networking.EnvoyFilter_NETWORK_FILTER:
		return &listenerv3.Filter{}
	case networking.EnvoyFilter_HTTP_FILTER:
		return &hcmv3.HttpFilter{}
	case networking.EnvoyFilter_ROUTE_CONFIGURATION:
		return &routev3.RouteConfiguration{}
	case networking.EnvoyFilter_VIRTUAL_HOST:
		return &routev3.VirtualHost{}
	case networking.EnvoyFilter_HTTP_ROUTE:
		return &routev3.Route{}
	case networking.EnvoyFilter_EXTENSION_CONFIG:
		return &corev3.TypedExtensionConfig{}
	default:
		return nil
	}
}

// parse reads a patch. Problems are kept in it.
func parse(object model.ObjectKey, index int, spec *networking.EnvoyFilter_EnvoyConfigObjectPatch) *patch {
	p := &patch{
		object: object, index: index, applyTo: spec.GetApplyTo(), op: operation(spec.GetApplyTo(), spec.GetPatch().GetOperation()),
		context: spec.GetMatch().GetContext(), match: spec.GetMatch(),
	}
	switch {
	case !p.fits():
		p.err = fmt.Errorf("the match does not fit %s", p.applyTo)
	case !supports(p.applyTo, p.op):
		p.err = fmt.Errorf("%s cannot be applied to %s", p.op, p.applyTo)
	case p.op != networking.EnvoyFilter_Patch_REMOVE:
		p.err = p.read(spec.GetPatch())
	}
	return p
}

// fits tells whether the match is of the kind that belongs to what the patch is applied to.
func (p *patch) fits() bool {
	group, _ := view.PatchGroupOf(p.applyTo)
	switch p.match.GetObjectTypes().(type) {
	case nil:
		return true
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Listener:
		return group == view.ListenerPatches || group == view.ExtensionPatches
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_RouteConfiguration:
		return group == view.RoutePatches
	case *networking.EnvoyFilter_EnvoyConfigObjectMatch_Cluster:
		return group == view.ClusterPatches
	default:
		return false
	}
}

// read reads the value. An unknown field is no reason not to apply the rest.
func (p *patch) read(spec *networking.EnvoyFilter_Patch) error {
	if spec.GetValue() == nil {
		return errors.New("there is no value")
	}
	text, err := protojson.Marshal(spec.GetValue())
	if err != nil {
		return fmt.Errorf("the value: %w", err)
	}
	m := newMessage(p.applyTo)
	if strict := protojson.Unmarshal(text, m); strict != nil {
		m = newMessage(p.applyTo)
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, m); err != nil {
			return fmt.Errorf("the value is no %s: %w", m.ProtoReflect().Descriptor().Name(), err)
		}
		p.warning = fmt.Errorf("part of the value is ignored: %w", strict)
	}
	if !p.merges() {
		if n, ok := m.(interface{ GetName() string }); ok && n.GetName() == "" && p.applyTo != networking.EnvoyFilter_FILTER_CHAIN &&
			p.applyTo != networking.EnvoyFilter_HTTP_ROUTE {
			return errors.New("the value has no name")
		}
		if err := check(m); err != nil {
			return fmt.Errorf("the value is invalid: %w", err)
		}
	}
	if l, ok := m.(*listenerv3.Listener); ok && p.merges() && l.GetAddress() != nil {
		if of := p.match.GetListener(); of.GetName() == "" && of.GetPortNumber() == 0 {
			return errors.New("the value has an address, and the match is of all listeners")
		}
	}
	p.value = m
	return nil
}

// operation returns the operation that is meant: what cannot be inserted at a place is added.
func operation(to networking.EnvoyFilter_ApplyTo, op networking.EnvoyFilter_Patch_Operation) networking.EnvoyFilter_Patch_Operation {
	switch op {
	case networking.EnvoyFilter_Patch_INSERT_BEFORE, networking.EnvoyFilter_Patch_INSERT_AFTER, networking.EnvoyFilter_Patch_INSERT_FIRST:
		if !isFilter(to) && to != networking.EnvoyFilter_HTTP_ROUTE {
			return networking.EnvoyFilter_Patch_ADD
		}
	default:
	}
	return op
}

func isFilter(to networking.EnvoyFilter_ApplyTo) bool {
	return to == networking.EnvoyFilter_LISTENER_FILTER || to == networking.EnvoyFilter_NETWORK_FILTER || to == networking.EnvoyFilter_HTTP_FILTER
}

// supports tells whether an operation has a meaning for what it is applied to.
func supports(to networking.EnvoyFilter_ApplyTo, op networking.EnvoyFilter_Patch_Operation) bool {
	switch op {
	case networking.EnvoyFilter_Patch_MERGE, networking.EnvoyFilter_Patch_MERGE_AND_REPLACE_LIST:
		return to != networking.EnvoyFilter_EXTENSION_CONFIG
	case networking.EnvoyFilter_Patch_ADD:
		return to != networking.EnvoyFilter_ROUTE_CONFIGURATION
	case networking.EnvoyFilter_Patch_REMOVE:
		return to != networking.EnvoyFilter_ROUTE_CONFIGURATION && to != networking.EnvoyFilter_EXTENSION_CONFIG
	case networking.EnvoyFilter_Patch_REPLACE:
		return isFilter(to) || to == networking.EnvoyFilter_VIRTUAL_HOST
	case networking.EnvoyFilter_Patch_INSERT_BEFORE, networking.EnvoyFilter_Patch_INSERT_AFTER, networking.EnvoyFilter_Patch_INSERT_FIRST:
		return true
	default:
		return false
	}
}
