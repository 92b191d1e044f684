package cell

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
	reads    map[Key]struct{}
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
	if r.reads == nil {
		r.reads = make(map[Key]struct{}, 8)
	}
	r.reads[k] = struct{}{}
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
