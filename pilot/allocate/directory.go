package allocate

import (
	"hash/fnv"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// Assign gives addresses to the ServiceEntries of a world that nobody writes statuses in. It depends on nothing but the
// objects, so that replicas and restarts agree: a host's address follows from its namespace and name, and where two
// would have one, the first by object name has it and the other the next that is free. What a status holds is never
// overridden. It returns the objects that get something, with their status filled in, and who goes without.
func Assign(objects []*model.Object, r Ranges) (map[model.ObjectKey]*model.Object, []source.Problem) {
	var entries []*entry
	taken, specs := map[netip.Addr]bool{}, newClaimed()
	for _, o := range objects {
		e := read(o)
		if e == nil {
			continue
		}
		entries = append(entries, e)
		for _, p := range e.given {
			specs.add(p)
		}
		for _, at := range e.has {
			taken[at] = true
		}
	}
	slices.SortFunc(entries, func(a, b *entry) int { return a.object.Compare(b.object.ObjectKey) })
	used := func(at netip.Addr) netip.Addr {
		if taken[at] {
			return at
		}
		return specs.covering(at)
	}
	out := map[model.ObjectKey]*model.Object{}
	var problems []source.Problem
	for _, e := range entries {
		var more []*networking.ServiceEntryAddress
		for _, s := range e.slots {
			if e.has[s].IsValid() {
				continue
			}
			p := r.of(s.six)
			at, ok := circle(p, nth(p, hash(s)), used)
			if !ok {
				problems = append(problems, Problem(s.key, exhausted(s, r)))
				continue
			}
			taken[at] = true
			more = append(more, &networking.ServiceEntryAddress{Value: at.String(), Host: s.host})
		}
		if len(more) > 0 {
			out[e.object.ObjectKey] = filled(e.object, more)
		}
	}
	return out, problems
}

// Problem says that an object's hosts go without addresses.
func Problem(k model.ObjectKey, err error) source.Problem {
	return source.Problem{Code: "addresses", Object: k, Field: "spec.hosts", Message: err.Error()}
}

func hash(s slot) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.key.Namespace + "/" + s.host)) // never fails
	return h.Sum64()
}

// filled returns a copy of an object with addresses added to its status.
func filled(o *model.Object, more []*networking.ServiceEntryAddress) *model.Object {
	status := &networking.ServiceEntryStatus{}
	if s, ok := o.Status.(*networking.ServiceEntryStatus); ok {
		proto.Merge(status, s)
	}
	status.Addresses = append(status.Addresses, more...)
	c := *o
	c.Status = status
	return &c
}

// Source is a source whose ServiceEntries get addresses by Assign.
type Source struct {
	source.Source
	ranges Ranges
}

// NewSource wraps a source that nobody writes statuses to.
func NewSource(inner source.Source, r Ranges) *Source { return &Source{inner, r} }
