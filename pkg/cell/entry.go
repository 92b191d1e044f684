package cell

import (
	"iter"
	"slices"
)

// entry is the variants of one cell.
type entry struct {
	masks []Mask
	few   []*Cell
	many  map[variantKey]*Cell // in place of few above setFew variants
}

type variantKey struct {
	mask Mask
	proj string
}

func (e *entry) get(m Mask, proj string) *Cell {
	if e.many != nil {
		return e.many[variantKey{m, proj}]
	}
	for _, c := range e.few {
		if c.mask == m && c.proj == proj {
			return c
		}
	}
	return nil
}

// put adds c, whose place must be free.
func (e *entry) put(c *Cell) {
	if !slices.Contains(e.masks, c.mask) {
		e.masks = append(e.masks, c.mask)
	}
	if e.many == nil && len(e.few) < setFew {
		e.few = append(e.few, c)
		return
	}
	if e.many == nil {
		e.many = make(map[variantKey]*Cell, 2*setFew)
		for _, o := range e.few {
			e.many[variantKey{o.mask, o.proj}] = o
		}
		e.few = nil
	}
	e.many[variantKey{c.mask, c.proj}] = c
}

// drop takes c out, which must be in.
func (e *entry) drop(c *Cell) {
	if e.many != nil {
		delete(e.many, variantKey{c.mask, c.proj})
	} else {
		e.few = slices.DeleteFunc(e.few, func(o *Cell) bool { return o == c })
	}
	for o := range e.all() {
		if o.mask == c.mask {
			return
		}
	}
	e.masks = slices.DeleteFunc(slices.Clone(e.masks), func(m Mask) bool { return m == c.mask })
}

func (e *entry) len() int { return len(e.few) + len(e.many) }

func (e *entry) all() iter.Seq[*Cell] {
	return func(yield func(*Cell) bool) {
		for _, c := range e.few {
			if !yield(c) {
				return
			}
		}
		for _, c := range e.many {
			if !yield(c) {
				return
			}
		}
	}
}
