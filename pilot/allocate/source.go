package allocate

import (
	"context"
	"slices"
	"sync"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// Run implements source.Source.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	return s.Source.Run(ctx, &assigning{
		Sink: sink, ranges: s.ranges, raw: map[model.ObjectKey]*model.Object{}, sent: map[model.ObjectKey]*model.Object{},
	})
}

// assigning is the sink of the inner source.
type assigning struct {
	source.Sink
	ranges Ranges

	mu      sync.Mutex                        // guards the rest; events are delivered under it, in order
	raw     map[model.ObjectKey]*model.Object // ServiceEntries as they came
	sent    map[model.ObjectKey]*model.Object // as they went on
	inner   []source.Problem                  // of the inner source
	without []source.Problem                  // of those that get no address
}

// Events implements source.Sink. A change of ServiceEntries costs some microseconds for each that there is.
func (a *assigning) Events(name string, events []model.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	touched := map[model.ObjectKey]bool{}
	for _, e := range events {
		if e.Key.Kind != model.KindServiceEntry {
			continue
		}
		touched[e.Key] = true
		if e.Object == nil {
			delete(a.raw, e.Key)
		} else {
			a.raw[e.Key] = e.Object
		}
	}
	if len(touched) == 0 {
		a.Sink.Events(name, events)
		return
	}
	assigned, without := a.assign()
	out := make([]model.Event, 0, len(events))
	for _, e := range events {
		if f := assigned[e.Key]; f != nil && e.Object != nil {
			e.Object = f
		}
		if touched[e.Key] {
			a.note(e)
		}
		out = append(out, e)
	}
	a.Sink.Events(name, append(out, a.moved(assigned, touched)...))
	if !slices.Equal(without, a.without) {
		a.without = without
		a.Sink.Problems(name, slices.Concat(a.inner, a.without))
	}
}

func (a *assigning) assign() (map[model.ObjectKey]*model.Object, []source.Problem) {
	all := make([]*model.Object, 0, len(a.raw))
	for _, o := range a.raw {
		all = append(all, o)
	}
	return Assign(all, a.ranges)
}

func (a *assigning) note(e model.Event) {
	if e.Object == nil {
		delete(a.sent, e.Key)
	} else {
		a.sent[e.Key] = e.Object
	}
}

// moved returns the objects whose addresses change by what happened to others, in order.
func (a *assigning) moved(assigned map[model.ObjectKey]*model.Object, touched map[model.ObjectKey]bool) []model.Event {
	var out []model.Event
	for k, raw := range a.raw {
		now := assigned[k]
		if now == nil {
			now = raw
		}
		if touched[k] || Same(statusAddresses(now), statusAddresses(a.sent[k])) {
			continue
		}
		out = append(out, model.Event{Key: k, Object: now})
	}
	slices.SortFunc(out, func(x, y model.Event) int { return x.Key.Compare(y.Key) })
	for _, e := range out {
		a.note(e)
	}
	return out
}

// Problems implements source.Sink.
func (a *assigning) Problems(name string, problems []source.Problem) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inner = problems
	a.Sink.Problems(name, slices.Concat(a.inner, a.without))
}
