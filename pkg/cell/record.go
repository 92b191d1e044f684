package cell

import "slices"

// Table numbers a kind of row. The numbers are the caller's.
type Table uint16

// Key names one row, or one fact derived from rows (an index entry, also an absent one).
type Key struct {
	Table Table
	Name  string
}

// Prop numbers one property of an environment, 0 to 63.
type Prop uint8

// Mask is a set of properties.
type Mask uint64

// Has tells whether p is in the set.
func (m Mask) Has(p Prop) bool { return m&(1<<p) != 0 }

// Env is what a cell is computed for, beside the rows: for Mizzen a view.
type Env interface {
	// Project returns a string that is equal for two environments exactly when they agree on every property of m.
	Project(m Mask) string
}

// Recorder collects what one computation reads. The zero value is ready; a nil *Recorder records nothing.
type Recorder struct {
	reads    []Key
	seen     map[Key]struct{} // what is in reads, from setFew on
	mask     Mask
	children []child
}

type child struct {
	cell  *Cell
	value any
}

// Read notes that row k was looked at, whether or not it exists.
func (r *Recorder) Read(k Key) {
	if r == nil {
		return
	}
	if r.seen == nil {
		if slices.Contains(r.reads, k) {
			return
		}
		if len(r.reads) >= setFew {
			r.seen = make(map[Key]struct{}, 2*setFew)
			for _, o := range r.reads {
				r.seen[o] = struct{}{}
			}
		}
	}
	if r.seen != nil {
		if _, twice := r.seen[k]; twice {
			return
		}
		r.seen[k] = struct{}{}
	}
	r.reads = append(r.reads, k)
}

// distinctReads returns the rows read, each once, in a slice of just their size.
func (r *Recorder) distinctReads() []Key { return slices.Clone(r.reads) }

// distinctChildren returns the cells read, each once.
func (r *Recorder) distinctChildren() []child {
	out := make([]child, 0, min(len(r.children), setFew))
	var seen map[*Cell]struct{}
	for _, ch := range r.children {
		if seen == nil && len(out) >= setFew {
			seen = make(map[*Cell]struct{}, len(r.children))
			for _, o := range out {
				seen[o.cell] = struct{}{}
			}
		}
		if seen == nil {
			if slices.ContainsFunc(out, func(o child) bool { return o.cell == ch.cell }) {
				continue
			}
		} else if _, twice := seen[ch.cell]; twice {
			continue
		} else {
			seen[ch.cell] = struct{}{}
		}
		out = append(out, ch)
	}
	if cap(out)-len(out) > len(out)/4 {
		out = slices.Clone(out)
	}
	return out
}

// Use notes that property p was looked at.
func (r *Recorder) Use(p Prop) {
	if r != nil {
		r.mask |= 1 << p
	}
}

// Mask returns the properties used so far.
func (r *Recorder) Mask() Mask {
	if r == nil {
		return 0
	}
	return r.mask
}
