package xds

import (
	"fmt"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec for everything that is not a Response
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mizzen-mesh/mizzen/pkg/wire"
)

// Field numbers of DiscoveryResponse and DeltaDiscoveryResponse, which agree in these.
const (
	responseVersion, responseTypeURL, responseNonce protowire.Number = 1, 4, 5
	deltaResponseRemoved                            protowire.Number = 6
)

// Body is the resources part of a response, shared by all streams that are sent the same. It is immutable.
type Body struct {
	buffers mem.BufferSlice
	size    int
	count   int
}

func newBody(rope wire.Rope, count int) *Body {
	b := &Body{buffers: make(mem.BufferSlice, 0, len(rope.Segments())), size: rope.Len(), count: count}
	for _, s := range rope.Segments() {
		b.buffers = append(b.buffers, mem.SliceBuffer(s))
	}
	return b
}

// Response is a DiscoveryResponse or DeltaDiscoveryResponse in encoded parts: the resources are shared with other
// streams, what surrounds them is this response's own.
type Response struct {
	TypeURL string
	Nonce   string
	Version string
	// Removed are the names of removed resources; delta only.
	Removed []string

	body *Body
}

// Count returns the number of resources.
func (r *Response) Count() int { return r.body.count }

// Size returns the bytes of the resources.
func (r *Response) Size() int { return r.body.size }

// Buffers returns the encoded message without copying the resources.
func (r *Response) Buffers() mem.BufferSlice {
	head := appendString(make([]byte, 0, len(r.Version)+4), responseVersion, r.Version)
	tail := appendString(make([]byte, 0, len(r.TypeURL)+len(r.Nonce)+8), responseTypeURL, r.TypeURL)
	tail = appendString(tail, responseNonce, r.Nonce)
	for _, n := range r.Removed {
		tail = protowire.AppendTag(tail, deltaResponseRemoved, protowire.BytesType)
		tail = protowire.AppendString(tail, n)
	}
	out := make(mem.BufferSlice, 0, len(r.body.buffers)+2)
	out = append(out, mem.SliceBuffer(head))
	out = append(out, r.body.buffers...)
	return append(out, mem.SliceBuffer(tail))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

// Codec sends a Response as the bytes it is made of, and leaves every other message to the protobuf codec.
type Codec struct{ fallback encoding.CodecV2 }

// NewCodec returns the codec for grpc.ForceServerCodecV2.
func NewCodec() Codec { return Codec{fallback: encoding.GetCodecV2("proto")} }

// Name implements encoding.CodecV2.
func (Codec) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if r, ok := v.(*Response); ok {
		return r.Buffers(), nil
	}
	return c.fallback.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(*Response); ok {
		return fmt.Errorf("decode: a Response is only ever sent")
	}
	return c.fallback.Unmarshal(data, v)
}
