package proxy

import (
	"fmt"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// Response is a DiscoveryResponse or DeltaDiscoveryResponse.
type Response struct {
	TypeURL, Version, Nonce string
	Resources               map[string]Resource
	Removed                 []string // delta only
}

// Resource is one resource as a proxy holds it.
type Resource struct {
	Version string // delta only
	Body    string // the message's bytes
}

// FromDelta reads a response of the incremental protocol. An error says in what its shape is wrong, which Envoy would
// reject as a whole.
func FromDelta(m *discoveryv3.DeltaDiscoveryResponse) (*Response, error) {
	r := &Response{
		TypeURL: m.GetTypeUrl(), Version: m.GetSystemVersionInfo(), Nonce: m.GetNonce(), Removed: m.GetRemovedResources(),
		Resources: map[string]Resource{},
	}
	for _, x := range m.GetResources() {
		inner, err := nameOf(r.TypeURL, x.GetResource())
		if err != nil {
			return nil, err
		}
		if r.TypeURL != translate.NameTableType && inner != x.GetName() {
			return nil, fmt.Errorf("%s: the resource %q is called %q inside", r.TypeURL, x.GetName(), inner)
		}
		if err := r.put(x.GetName(), Resource{x.GetVersion(), string(x.GetResource().GetValue())}); err != nil {
			return nil, err
		}
	}
	for _, n := range r.Removed {
		if _, both := r.Resources[n]; both {
			return nil, fmt.Errorf("%s: %q is sent and removed in one response", r.TypeURL, n)
		}
	}
	return r, nil
}

// FromState reads a response of the state of the world. An error says in what its shape is wrong.
func FromState(m *discoveryv3.DiscoveryResponse) (*Response, error) {
	r := &Response{TypeURL: m.GetTypeUrl(), Version: m.GetVersionInfo(), Nonce: m.GetNonce(), Resources: map[string]Resource{}}
	for _, x := range m.GetResources() {
		name, err := nameOf(r.TypeURL, x)
		if err != nil {
			return nil, err
		}
		if err := r.put(name, Resource{Body: string(x.GetValue())}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Response) put(name string, x Resource) error {
	if _, twice := r.Resources[name]; twice {
		return fmt.Errorf("%s: %q is twice in one response", r.TypeURL, name)
	}
	r.Resources[name] = x
	return nil
}

// nameOf returns the name in a resource. In each type that is served and has one, it is field 1.
func nameOf(typeURL string, a *anypb.Any) (string, error) {
	if a.GetTypeUrl() != typeURL {
		return "", fmt.Errorf("a response of type %s holds a %s", typeURL, a.GetTypeUrl())
	}
	if typeURL == translate.NameTableType {
		return "", nil
	}
	for b := a.GetValue(); len(b) > 0; {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return "", fmt.Errorf("%s: %w", typeURL, protowire.ParseError(n))
		}
		b = b[n:]
		if num == 1 && typ == protowire.BytesType {
			name, n := protowire.ConsumeString(b)
			if n < 0 {
				return "", fmt.Errorf("%s: %w", typeURL, protowire.ParseError(n))
			}
			return name, nil
		}
		if n = protowire.ConsumeFieldValue(num, typ, b); n < 0 {
			return "", fmt.Errorf("%s: %w", typeURL, protowire.ParseError(n))
		}
		b = b[n:]
	}
	return "", nil
}

// Delta returns a request as the incremental protocol writes it.
func Delta(r *xds.Request) *discoveryv3.DeltaDiscoveryRequest {
	return &discoveryv3.DeltaDiscoveryRequest{
		Node: r.Node, TypeUrl: r.TypeURL, ResponseNonce: r.Nonce, ErrorDetail: r.Error,
		ResourceNamesSubscribe: r.Subscribe, ResourceNamesUnsubscribe: r.Unsubscribe, InitialResourceVersions: r.Initial,
	}
}

// State returns a request as the state of the world writes it.
func State(r *xds.Request) *discoveryv3.DiscoveryRequest {
	return &discoveryv3.DiscoveryRequest{
		Node: r.Node, TypeUrl: r.TypeURL, ResponseNonce: r.Nonce, ErrorDetail: r.Error, VersionInfo: r.Version, ResourceNames: r.Names,
	}
}
