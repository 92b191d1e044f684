package selection

import (
	"context"
	"slices"
	"testing"

	mesh "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// steps is a source that delivers one list of events after the other, when it is told to.
type steps struct {
	next chan []model.Event
	done chan struct{}
}

func (s steps) Name() string { return "steps" }

func (s steps) Run(ctx context.Context, sink source.Sink) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case events := <-s.next:
			sink.Events("steps", events)
			s.done <- struct{}{}
		}
	}
}

// recorder keeps the names of what is there.
type recorder struct {
	there  map[string]bool
	events int
}

func (r *recorder) Events(_ string, events []model.Event) {
	for _, e := range events {
		r.events++
		if e.Object != nil {
			r.there[e.Key.String()] = true
		} else {
			delete(r.there, e.Key.String())
		}
	}
}

func (*recorder) Synced(string)                     {}
func (*recorder) Problems(string, []source.Problem) {}

func object(kind model.Kind, namespace, name string, labels map[string]string) model.Event {
	o := &model.Object{ObjectKey: model.ObjectKey{Kind: kind, Namespace: namespace, Name: name}, Labels: labels}
	return model.Event{Key: o.ObjectKey, Object: o}
}

// TestSelection follows labels of namespaces, selectors and revisions.
func TestSelection(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	in, r := steps{make(chan []model.Event), make(chan struct{})}, &recorder{there: map[string]bool{}}
	s := New(in, "blue", "istio-system")
	ended := make(chan error)
	go func() { ended <- s.Run(ctx, r) }()
	send := func(events ...model.Event) { in.next <- events; <-in.done }
	want := func(what string, names ...string) {
		t.Helper()
		var got []string
		for n := range r.there {
			got = append(got, n)
		}
		slices.Sort(got)
		slices.Sort(names)
		if !slices.Equal(got, names) {
			t.Errorf("%s: %v, want %v", what, got, names)
		}
	}
	const a, b, ns, mine = "Service/a/x", "Service/b/x", "Namespace//a", "Sidecar/a/mine"
	send(object(model.KindService, "a", "x", nil), object(model.KindNamespace, "", "a", nil), object(model.KindService, "b", "x", nil),
		object(model.KindSidecar, "a", "mine", map[string]string{RevisionLabel: "blue"}), object(model.KindSidecar, "a", "other", map[string]string{RevisionLabel: "green"}))
	want("without selectors", a, b, ns, mine)
	selectors, err := Parse([]*mesh.LabelSelector{{MatchLabels: map[string]string{"mesh": "in"}}})
	if err != nil {
		t.Fatal(err)
	}
	s.Select(selectors)
	want("no namespace is selected", ns)
	send(object(model.KindNamespace, "", "a", map[string]string{"mesh": "in"}))
	want("one is labelled", ns, a, mine)
	send(object(model.KindSidecar, "a", "mine", map[string]string{RevisionLabel: "green"}))
	want("an object goes to another revision", ns, a)
	before := r.events
	send(object(model.KindService, "b", "y", nil))
	if want("one elsewhere", ns, a); r.events != before {
		t.Errorf("an object of a namespace that is not selected is an event")
	}
	s.Select(nil)
	want("without selectors again", ns, a, b, "Service/b/y")
	send(model.Event{Key: model.ObjectKey{Kind: model.KindNamespace, Name: "a"}})
	want("the namespace goes", a, b, "Service/b/y")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := Parse([]*mesh.LabelSelector{{MatchLabels: map[string]string{"?": ""}}}); err == nil {
		t.Error("an invalid selector is accepted")
	}
}
