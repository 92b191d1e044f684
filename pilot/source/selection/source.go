package selection

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
)

// Source is a source of which only the objects that count are delivered.
type Source struct {
	inner    source.Source
	catalog  *convert.Catalog
	revision string

	mu     sync.Mutex // guards the rest; events are delivered under it, in order
	filter *Filter
	sink   source.Sink // nil unless running
}

var _ source.Source = (*Source)(nil)

// New wraps a source.
func New(inner source.Source, revision, systemNamespace string) *Source {
	return &Source{inner: inner, catalog: convert.NewCatalog(), revision: revision, filter: NewFilter(systemNamespace, nil)}
}

// Name returns the inner source's name.
func (s *Source) Name() string { return s.inner.Name() }

// Run runs the inner source.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	s.mu.Lock()
	s.sink = sink
	s.mu.Unlock()
	return s.inner.Run(ctx, filtered{s, sink})
}

// Select replaces the selectors of namespaces. Objects that come and go by it are delivered as created and deleted.
func (s *Source) Select(selectors []labels.Selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if events := s.filter.Select(selectors); len(events) > 0 && s.sink != nil {
		s.sink.Events(s.Name(), events)
	}
}

// filtered is the sink of the inner source.
type filtered struct {
	of *Source
	source.Sink
}

// Events passes on what counts.
func (f filtered) Events(name string, events []model.Event) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if out := f.of.through(events); len(out) > 0 {
		f.Sink.Events(name, out)
	}
}

func (s *Source) through(events []model.Event) []model.Event {
	var out []model.Event
	for _, e := range events {
		if e.Object == nil || Foreign(s.catalog.Kind(e.Key.Kind), s.revision, e.Object.Labels) {
			out = s.filter.Remove(e.Key, out)
		} else {
			out = s.filter.Put(e.Object, out)
		}
	}
	return out
}

// Objects returns those of a list that count.
func Objects(list []*model.Object, revision, systemNamespace string, selectors []labels.Selector) []*model.Object {
	s := New(nil, revision, systemNamespace)
	s.filter.Select(selectors)
	events := make([]model.Event, len(list))
	for i, o := range list {
		events[i] = model.Event{Key: o.ObjectKey, Object: o}
	}
	visible := map[model.ObjectKey]bool{}
	for _, e := range s.through(events) {
		visible[e.Key] = e.Object != nil
	}
	var out []*model.Object
	for _, o := range list {
		if visible[o.ObjectKey] {
			out = append(out, o)
		}
	}
	return out
}
