// Package wire assembles protobuf messages from parts that were encoded once.
//
// A Rope is an immutable sequence of byte segments. Protobuf's repeated fields and length-prefixed messages concatenate,
// so that a large response is put together from shared segments without encoding or copying anything again.
package wire

import (
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/encoding/protowire"
)

// Rope is an immutable byte string in segments.
type Rope struct {
	segs [][]byte
	size int
}

// Bytes makes a rope of one segment. The caller gives b away.
func Bytes(b []byte) Rope {
	if len(b) == 0 {
		return Rope{}
	}
	return Rope{segs: [][]byte{b}, size: len(b)}
}

// Len returns the number of bytes.
func (r Rope) Len() int { return r.size }

// Segments returns the segments; they must not be modified.
func (r Rope) Segments() [][]byte { return r.segs }

// Flat returns the bytes as one slice, which the caller must not modify.
func (r Rope) Flat() []byte {
	if len(r.segs) == 1 {
		return r.segs[0]
	}
	out := make([]byte, 0, r.size)
	for _, s := range r.segs {
		out = append(out, s...)
	}
	return out
}

// Builder puts a rope together. Small pieces written in a row share a segment.
type Builder struct {
	rope Rope
	tail []byte
	flat bool
}

// Flat returns a builder that copies everything into one segment of about size bytes.
func Flat(size int) Builder { return Builder{flat: true, tail: make([]byte, 0, size)} }

// Len returns the bytes written so far.
func (b *Builder) Len() int { return b.rope.size + len(b.tail) }

// FieldSize returns the bytes of a length-prefixed field whose content has n bytes, 0 for an empty string.
func FieldSize(field protowire.Number, n int) int {
	if n == 0 {
		return 0
	}
	return protowire.SizeTag(field) + protowire.SizeBytes(n)
}

// Grow makes room for that many more segments.
func (b *Builder) Grow(segments int) { b.rope.segs = slices.Grow(b.rope.segs, segments) }

// Append adds bytes by copying them.
func (b *Builder) Append(p []byte) { b.tail = append(b.tail, p...) }

// Tag adds a field's tag with the length-prefixed wire type, and the length n of what follows.
func (b *Builder) Tag(field protowire.Number, n int) {
	b.tail = protowire.AppendTag(b.tail, field, protowire.BytesType)
	b.tail = protowire.AppendVarint(b.tail, uint64(n))
}

// String adds a string field, nothing if s is empty.
func (b *Builder) String(field protowire.Number, s string) {
	if s != "" {
		b.Tag(field, len(s))
		b.tail = append(b.tail, s...)
	}
}

// shareAbove is the size from which a piece stays a segment of its own instead of being copied, in bytes.
const shareAbove = 256

// Rope adds r, sharing its larger segments.
func (b *Builder) Rope(r Rope) {
	if !b.flat && len(r.segs) > 2 {
		b.Grow(len(r.segs))
	}
	for _, s := range r.segs {
		if b.flat || len(s) < shareAbove {
			b.tail = append(b.tail, s...)
			continue
		}
		b.flush()
		b.rope.segs = append(b.rope.segs, s)
		b.rope.size += len(s)
	}
}

// Field adds r as a length-prefixed field.
func (b *Builder) Field(field protowire.Number, r Rope) {
	b.Tag(field, r.size)
	b.Rope(r)
}

func (b *Builder) flush() {
	if len(b.tail) > 0 {
		b.rope.segs = append(b.rope.segs, b.tail[:len(b.tail):len(b.tail)])
		b.rope.size += len(b.tail)
		b.tail = nil
	}
}

// Done returns the rope. The builder must not be used afterwards.
func (b *Builder) Done() Rope {
	b.flush()
	return b.rope
}

// Sum is a content hash, equal on every replica for equal bytes.
type Sum uint64

// String returns 16 hexadecimal digits.
func (s Sum) String() string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(s))
	return hex.EncodeToString(b[:])
}

// Hash returns the content hash of r.
func (r Rope) Hash() Sum {
	h := xxhash.New()
	for _, s := range r.segs {
		_, _ = h.Write(s) // never fails
	}
	return Sum(h.Sum64())
}
