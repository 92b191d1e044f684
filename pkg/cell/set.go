package cell

import (
	"iter"
	"slices"
)

// set is a set that is small as a rule: most rows have a few readers and most cells a few parents, and a map for each
// would cost several times what it holds.
type set[T comparable] struct {
	few  []T
	many map[T]struct{} // in place of few above setFew elements
}

// setFew is up to how many elements a walk along a slice is as quick as a map.
const setFew = 32

func (s *set[T]) add(v T) {
	switch {
	case s.many != nil:
		s.many[v] = struct{}{}
	case slices.Contains(s.few, v):
	case len(s.few) < setFew:
		s.few = append(s.few, v)
	default:
		s.many = make(map[T]struct{}, 2*setFew)
		for _, o := range s.few {
			s.many[o] = struct{}{}
		}
		s.many[v] = struct{}{}
		s.few = nil
	}
}

func (s *set[T]) remove(v T) {
	if s.many != nil {
		delete(s.many, v)
		return
	}
	if i := slices.Index(s.few, v); i >= 0 {
		last := len(s.few) - 1
		s.few[i] = s.few[last]
		clear(s.few[last:])
		s.few = s.few[:last]
	}
}

func (s *set[T]) len() int { return len(s.few) + len(s.many) }

// all yields the elements in no order. The set must not change meanwhile.
func (s *set[T]) all() iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, v := range s.few {
			if !yield(v) {
				return
			}
		}
		for v := range s.many {
			if !yield(v) {
				return
			}
		}
	}
}
