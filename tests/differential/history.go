package differential

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
	"github.com/mizzen-mesh/mizzen/tests/proxy"
)

// history is a control plane that follows a random life, with the proxies that live through it.
type history struct {
	settings *model.Settings
	mesh     *model.Mesh
	world    map[model.ObjectKey]*model.Object
	plane    *plane
	reader   *proxy.Reader
	askers   []*asker // one for each stream
	streams  []*stream
}

// newHistory lets members live, each once by increments and once by the state of the world.
func newHistory(t *rapid.T, settings *model.Settings, list []member) (*history, error) {
	mesh, err := meshconfig.Parse()
	if err != nil {
		return nil, err
	}
	h := &history{settings: settings, mesh: mesh, world: map[model.ObjectKey]*model.Object{}, plane: newPlane(settings, mesh), reader: &proxy.Reader{}}
	names, bodies := xds.NewNameSets(), xds.NewBodies()
	for _, m := range list {
		for _, delta := range []bool{true, false} {
			a, err := h.plane.asker(m, delta, h.reader)
			if err != nil {
				return nil, err
			}
			h.askers = append(h.askers, a)
			s := &stream{
				member: m, delta: delta, plane: h.plane, names: names, bodies: bodies, timing: xds.DefaultTiming(), log: t.Logf,
				now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
			}
			s.proxy = proxy.New(proxy.Options{
				Node: m.node, Delta: delta, Routes: m.routes, Reader: h.reader, Patient: pick(t, "patient", false, true),
				KeepNonces: !delta && pick(t, "keeps nonces", false, true),
			})
			h.streams = append(h.streams, s)
		}
	}
	return h, nil
}

// apply makes one step of edits.
func (h *history) apply(edits []edit, mesh *model.Mesh) error {
	events := make([]model.Event, 0, len(edits))
	for _, e := range edits {
		ev, err := e.event()
		if err != nil {
			return err
		}
		events = append(events, ev)
		if h.world[ev.Key] = ev.Object; ev.Object == nil {
			delete(h.world, ev.Key)
		}
	}
	if mesh != nil {
		h.mesh = mesh
	}
	return h.plane.apply(events, mesh)
}

// scratch returns what an engine that sees nothing but the present objects gives each member.
func (h *history) scratch() ([]content, error) {
	p := newPlane(h.settings, h.mesh)
	defer p.stop()
	events := make([]model.Event, 0, len(h.world))
	for k, o := range h.world {
		events = append(events, model.Event{Key: k, Object: o})
	}
	if err := p.apply(events, nil); err != nil {
		return nil, err
	}
	out := make([]content, len(h.askers))
	for i, was := range h.askers {
		a, err := p.asker(was.member, was.delta, h.reader)
		if err != nil {
			return nil, err
		}
		if out[i], err = a.settle(p); err != nil {
			return nil, err
		}
	}
	return out, noProblems("from scratch", p)
}

// noProblems checks that everything could be made: all drawn objects are valid.
func noProblems(what string, p *plane) error {
	for unit, text := range p.engine.Problems() {
		return fmt.Errorf("%s, %s cannot be made: %s", what, unit, text)
	}
	return nil
}

// check compares the engine that followed the history with one that starts from scratch, and returns the latter's view.
func (h *history) check() ([]content, error) {
	want, err := h.scratch()
	if err != nil {
		return nil, err
	}
	for i, a := range h.askers {
		got, err := a.settle(h.plane)
		if err != nil {
			return nil, err
		}
		if err := sameSlots(got.slots, want[i].slots); err != nil {
			return nil, fmt.Errorf("%s: %w\nincremental %s\nfrom scratch %s", a.name, err, show(got), show(want[i]))
		}
	}
	return want, noProblems("following the edits", h.plane)
}

// show renders what differs in kind, not in content: the names by slot.
func show(c content) string {
	out := ""
	for _, s := range slices.Sorted(maps.Keys(c.slots)) {
		out += fmt.Sprintf("\n  %s %v", s, slices.Sorted(maps.Keys(c.slots[s])))
	}
	return out
}

func sameSlots(got, want map[string]map[string]string) error {
	for _, slot := range slices.Sorted(maps.Keys(want)) {
		if got[slot] == nil && len(want[slot]) > 0 {
			return fmt.Errorf("slot %s is missing", slot)
		}
		for _, n := range slices.Sorted(maps.Keys(want[slot])) {
			if g := got[slot][n]; g != want[slot][n] {
				return fmt.Errorf("%s %q: version %q, from scratch %q", slot, n, g, want[slot][n])
			}
		}
		for _, n := range slices.Sorted(maps.Keys(got[slot])) {
			if _, in := want[slot][n]; !in {
				return fmt.Errorf("%s %q is there, from scratch it is not", slot, n)
			}
		}
	}
	return nil
}

// restWithin is how long a proxy that answers at once may take: the wait before removals, and no deadline that steps in
// for an answer that never comes.
const restWithin = 4 * time.Second

// end lets every stream come to rest and compares what the proxies hold with the content from scratch. It returns the
// longest time that a proxy took.
func (h *history) end(want []content) (longest time.Duration, err error) {
	for i, s := range h.streams {
		took, err := s.settle()
		if err != nil {
			return 0, err
		}
		if longest = max(longest, took); took > restWithin {
			return 0, fmt.Errorf("%s: came to rest after %v only", s, took)
		}
		if err := s.holds(want[i]); err != nil {
			return 0, fmt.Errorf("%s: %w", s, err)
		}
	}
	return longest, nil
}

// holds checks that the proxy holds exactly the content.
func (s *stream) holds(want content) error {
	types := []string{translate.ClusterType, translate.EndpointType, translate.ListenerType, translate.RouteType, translate.NameTableType}
	if s.routes != nil {
		types = []string{translate.RouteType, translate.ClusterType, translate.EndpointType}
	}
	if s.delta && s.routes == nil {
		types = append(types, translate.VirtualHostType)
	}
	for _, url := range types {
		held := s.proxy.Held(url)
		for n, body := range want.bodies[url] {
			if s.routes != nil && url == translate.ClusterType && !slices.Contains(s.proxy.Names(url), n) {
				continue
			}
			switch got, ok := held[n]; {
			case !ok:
				return fmt.Errorf("%s %q is not held", short(url), n)
			case got.Body != body:
				return fmt.Errorf("%s %q is held in another version, %s", short(url), n, explain(url, got.Body, body))
			}
		}
		for n := range held {
			if _, ok := want.bodies[url][n]; !ok {
				return fmt.Errorf("%s %q is held, but gone", short(url), n)
			}
		}
	}
	if cold := s.proxy.Cold(); len(cold) > 0 {
		return fmt.Errorf("clusters %v wait for endpoints", cold)
	}
	waiting, err := s.proxy.Waiting()
	if len(waiting) > 0 {
		return fmt.Errorf("routes %v wait for virtual hosts", waiting)
	}
	return err
}

// live lets one stream do a little of what it may do now.
func (s *stream) live(what string, t *rapid.T) error {
	switch what {
	case "settle":
		_, err := s.settle()
		return err
	case "reconnect":
		return s.connect()
	case "wait":
		s.now = s.now.Add(time.Duration(rapid.IntRange(1, 7000).Draw(t, "ms")) * time.Millisecond)
	case "idle":
		return nil
	}
	s.publish()
	if _, _, err := s.receive(); err != nil || what == "receive" {
		return err
	}
	if pending := s.proxy.Pending(); len(pending) > 0 {
		return s.request(pick(t, "answer", pending...))
	}
	return nil
}
