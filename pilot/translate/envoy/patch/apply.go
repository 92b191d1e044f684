package patch

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// edit applies patches in order to m, which is its own to change, and returns the result; nil if m is removed. A patch
// that fails by itself is told to fail and leaves everything as it was.
type edit func(m proto.Message, patches []*patch, fail func(*patch, error)) proto.Message

// apply returns m changed by patches, and the problems there were, by patch in order. m itself stays. If the result of
// all patches is one that Envoy would refuse by refuses, each patch is tried, and those are left out that spoil it.
func apply(m proto.Message, patches []*patch, e edit, refuses verdict) (proto.Message, []error) {
	if len(patches) == 0 {
		return m, nil
	}
	failed := map[*patch]error{}
	out, err := attempt(m, patches, e, refuses, failed)
	if err != nil {
		out = m
		clear(failed)
		kept := make([]*patch, 0, len(patches))
		for _, p := range patches {
			kept = append(kept, p)
			better, err := attempt(m, kept, e, refuses, failed)
			if err != nil {
				failed[p] = err
				kept = kept[:len(kept)-1]
				continue
			}
			out = better
		}
	}
	var errs []error
	for _, p := range patches {
		if err := failed[p]; err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	return out, errs
}

// attempt applies patches to a copy of m. The error tells why the result is of no use.
func attempt(m proto.Message, patches []*patch, e edit, refuses verdict, failed map[*patch]error) (out proto.Message, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = nil, fmt.Errorf("applying it panicked: %v", r)
		}
	}()
	out = e(proto.Clone(m), patches, func(p *patch, err error) {
		if failed[p] == nil {
			failed[p] = err
		}
	})
	if out == nil {
		return nil, nil
	}
	if err := refuses(out); err != nil {
		return nil, fmt.Errorf("the result is invalid: %w", err)
	}
	return out, nil
}

// problemMessage carries problems of a unit that leave its resources alone.
func problemMessage(errs []error) []*translate.Message {
	if len(errs) == 0 {
		return nil
	}
	return []*translate.Message{{Name: "EnvoyFilter", Err: errors.Join(errs...)}}
}
