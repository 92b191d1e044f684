package xds

import (
	"hash/maphash"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/mizzen-mesh/mizzen/pkg/wire"
)

// A body goes out in pieces: runs of resources copied into one segment. A walk over thousands of segments for each of
// hundreds of streams costs much more than the copy, and most classes of proxies share most runs.
const (
	// manySegments is from how many segments a resource is copied before it is sent.
	manySegments = 64
	// pieceMost is what a piece of several resources may have at most, in bytes, and pieceEnds one in how many resources
	// ends a piece: which one depends on its name alone, so that a class with one more resource has the same other pieces.
	pieceMost = 128 << 10
	pieceEnds = 32
	// pieceLeast is how many resources are worth a copy. What a proxy has for itself alone, its inbound side, is less.
	pieceLeast = 8
)

// pieceKey finds a candidate; its members decide.
type pieceKey struct {
	sum   uint64
	delta bool
}

type piece struct {
	members []*Resource
	once    sync.Once
	rope    wire.Rope
	size    int
	used    time.Time // guarded by Bodies.mu
}

// of returns the body with rs, in their order. The numbers tell the slots apart that resources come from: a piece is of
// one slot, since of some slots every proxy has its own resources, and of others all have the same.
func (b *Bodies) of(now time.Time, delta bool, rs iter.Seq2[int, *Resource]) *Body {
	var rope wire.Builder
	var run []*Resource
	n, size, slot := 0, 0, 0
	flush := func() {
		if len(run) >= pieceLeast {
			rope.Rope(b.piece(now, delta, run, size))
		} else {
			for _, r := range run {
				rope.Rope(b.single(now, delta, r))
			}
		}
		run, size = run[:0], 0
	}
	for s, r := range rs {
		if l := r.Wrapped.Len(); size+l > pieceMost || s != slot {
			flush()
		}
		run, size, slot = append(run, r), size+r.Wrapped.Len(), s
		n++
		if maphash.String(b.seed, r.Name)%pieceEnds == 0 {
			flush()
		}
	}
	flush()
	return newBody(rope.Done(), n)
}

// single returns r as it stands in a response, in few segments.
func (b *Bodies) single(now time.Time, delta bool, r *Resource) wire.Rope {
	if len(r.Wrapped.Segments()) <= manySegments {
		return r.form(delta)
	}
	return b.piece(now, delta, []*Resource{r}, r.Wrapped.Len())
}

// piece returns run, which it does not keep, as it stands in a response, in one segment. size is about its bytes.
func (b *Bodies) piece(now time.Time, delta bool, run []*Resource, size int) wire.Rope {
	var h maphash.Hash
	h.SetSeed(b.seed)
	for _, r := range run {
		maphash.WriteComparable(&h, r)
	}
	key := pieceKey{h.Sum64(), delta}
	b.mu.Lock()
	p := b.pieces[key]
	switch {
	case p == nil:
		b.makeRoom(now)
		p = &piece{members: slices.Clone(run), size: size, used: now}
		b.pieces[key] = p
		b.bytes += size
	case slices.Equal(p.members, run):
		p.used = now
	default: // two runs of one hash: practically never
		p = &piece{members: slices.Clone(run)}
	}
	b.mu.Unlock()
	p.once.Do(func() {
		flat := wire.Flat(size + 16*len(p.members))
		for _, r := range p.members {
			flat.Rope(r.form(delta))
		}
		p.rope = flat.Done()
	})
	return p.rope
}
