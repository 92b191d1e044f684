// Package translate is the frame of all generators: what a slot is, what it yields, and how its parts are encoded.
//
// A slot is one group of resources of one type that a proxy watches, for example "the outbound clusters". It is made of
// units (one service, one port, one route configuration), and each unit is a cell: a pure function of the rows and view
// properties it reads. Units are the grain of invalidation, so that a changed row recomputes the units that read it.
package translate

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/wire"
)

// The type URLs of what is served.
const (
	ClusterType     = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	EndpointType    = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"
	ListenerType    = "type.googleapis.com/envoy.config.listener.v3.Listener"
	RouteType       = "type.googleapis.com/envoy.config.route.v3.RouteConfiguration"
	VirtualHostType = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
	SecretType      = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
	ExtensionType   = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig"
	NameTableType   = "type.googleapis.com/istio.networking.nds.v1.NameTable"
)

// Message is one generated resource, before encoding.
type Message struct {
	Name string
	// Proto is the resource, or with Parts all of it but the parts.
	Proto proto.Message
	// Parts are encoded elements of the repeated message field Field, put behind Proto's own bytes in order.
	Field protowire.Number
	Parts []*Part
	// Whole, if set, is the encoded resource, and Proto is nil.
	Whole *Part
	// Err, if set, tells why this one resource of its unit cannot be made.
	Err error
}

// Part is an encoded message that takes part in larger ones. Parts are compared by pointer: the same content yields
// the same *Part for as long as its cell lives.
type Part struct {
	Name string
	Body wire.Rope
	Sum  wire.Sum
}

// Slot is one group of resources of one type.
type Slot struct {
	// Name is unique: "cds/outbound".
	Name    string
	TypeURL string
	// Units lists what the slot holds for a view, in order. It is nil for slots whose units are asked for by name:
	// then a unit is the resource name, a string.
	Units func(c *view.Context) []any
	// Build makes the resources of one unit; none if there is nothing of that name. A unit is a comparable value.
	Build func(c *view.Context, unit any) ([]*Message, error)
}

// Encode returns the deterministic bytes of m.
func Encode(m *Message) (wire.Rope, error) {
	if m.Whole != nil {
		return m.Whole.Body, nil
	}
	head, err := proto.MarshalOptions{Deterministic: true}.Marshal(m.Proto)
	if err != nil {
		return wire.Rope{}, fmt.Errorf("encode %s: %w", m.Name, err)
	}
	if len(m.Parts) == 0 {
		return wire.Bytes(head), nil
	}
	var b wire.Builder
	b.Grow(2*len(m.Parts) + 1) // each has a tag before it
	b.Append(head)
	for _, p := range m.Parts {
		b.Field(m.Field, p.Body)
	}
	return b.Done(), nil
}

// EncodePart returns m as a part.
func EncodePart(name string, m proto.Message) (*Part, error) {
	body, err := Encode(&Message{Name: name, Proto: m})
	if err != nil {
		return nil, err
	}
	return &Part{Name: name, Body: body, Sum: body.Hash()}, nil
}

// PartEqual is the cell.Equal of cells whose value is a *Part.
func PartEqual(a, b any) bool {
	x, ok := a.(*Part)
	y, ok2 := b.(*Part)
	if !ok || !ok2 || x == nil || y == nil {
		return a == b
	}
	return x.Sum == y.Sum && x.Name == y.Name && x.Body.Len() == y.Body.Len()
}
