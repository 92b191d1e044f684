package model

import (
	"iter"
	"slices"
)

// AllObjects yields every object of the PushContext, by kind and then "namespace/name", for people and tests.
func (pc *PushContext) AllObjects() iter.Seq[*Object] {
	return func(yield func(*Object) bool) {
		kinds := make([]Kind, 0, len(pc.objects))
		for k := range pc.objects {
			kinds = append(kinds, k)
		}
		slices.Sort(kinds)
		for _, k := range kinds {
			for _, o := range pc.objects[k].All() {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// AllEndpoints yields the endpoints of every service, for people and tests.
func (pc *PushContext) AllEndpoints() iter.Seq[*Endpoints] {
	return func(yield func(*Endpoints) bool) {
		for _, e := range pc.endpoints.All() {
			if !yield(e) {
				return
			}
		}
	}
}
