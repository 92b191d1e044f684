package xds

import (
	"fmt"
	"maps"
	"slices"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
	"github.com/mizzen-mesh/mizzen/pkg/wire"
)

// fakeWorld stands for the engine with one class of proxies: it holds resources and publishes them as the engine does.
type fakeWorld struct {
	slots   []*fakeSlot
	gen     uint64
	demand  map[string]Names
	uses    map[string]bool
	version func(gen uint64) string
}

type fakeSlot struct {
	slot  *translate.Slot
	named bool
	want  map[string]*Resource // what the world says
	state *State
}

var fakeTypes = map[string]string{
	"cds": translate.ClusterType, "eds": translate.EndpointType, "lds": translate.ListenerType, "rds": translate.RouteType,
	"vhds": translate.VirtualHostType, "sds": translate.SecretType, "ecds": translate.ExtensionType, "nds": translate.NameTableType,
	"unknown": "type.googleapis.com/unknown.Type", "health": HealthType, "debug": "istio.io/debug/syncz",
}

func newFakeWorld() *fakeWorld {
	w := &fakeWorld{demand: map[string]Names{}, uses: map[string]bool{}, version: func(g uint64) string { return fmt.Sprintf("v%d", g) }}
	for _, t := range []string{"cds", "cds", "eds", "lds", "rds", "vhds", "sds", "ecds", "nds"} {
		url := fakeTypes[t]
		s := &fakeSlot{slot: &translate.Slot{Name: fmt.Sprint(t, len(w.slots)), TypeURL: url}, want: map[string]*Resource{}}
		s.named = t == "eds" || t == "rds" || t == "sds" || t == "ecds" || t == "vhds"
		s.state = &State{Slot: s.slot}
		w.slots = append(w.slots, s)
	}
	return w
}

func (w *fakeWorld) serves(url string) bool { return w.slot(url) != nil }

func (w *fakeWorld) slot(url string) *fakeSlot {
	for _, s := range w.slots {
		if s.slot.TypeURL == url {
			return s
		}
	}
	return nil
}

func fakeResource(url, name, content string) *Resource {
	body := wire.Bytes([]byte(name + "=" + content))
	r := newResource(url, name, body, body.Hash())
	r.Origin = func() model.Origin { return model.Origin{Rows: []cell.Key{{Table: 1, Name: "origin/" + name}}} }
	return r
}

// set makes or, with nil, takes away a resource.
func (w *fakeWorld) set(url, name string, r *Resource) {
	s := w.slot(url)
	if r == nil {
		delete(s.want, name)
	} else if old := s.want[name]; old == nil || old.Version != r.Version || !slices.Equal(old.Clusters, r.Clusters) {
		s.want[name] = r
	}
}

// publish brings the states to what the world says and to the names demanded.
func (w *fakeWorld) publish() *Published {
	w.gen++
	return w.current()
}

func (w *fakeWorld) current() *Published {
	p := &Published{Generation: w.gen, Version: w.version(w.gen), Types: map[string][]*State{}}
	for _, s := range w.slots {
		s.next(w.items(s))
		if !s.named && w.uses[s.slot.TypeURL] || s.named && w.demand[s.slot.TypeURL] != nil {
			p.Types[s.slot.TypeURL] = append(p.Types[s.slot.TypeURL], s.state)
		}
	}
	return p
}

// items returns what the slot's state should hold: all, or the names that are demanded.
func (w *fakeWorld) items(s *fakeSlot) map[string]*Resource {
	if !s.named {
		return s.want
	}
	out := map[string]*Resource{}
	names := w.demand[s.slot.TypeURL]
	if names == nil {
		return out
	}
	if s.slot.TypeURL == translate.VirtualHostType {
		for route := range names.All() {
			out[route] = nil
		}
		for n, r := range s.want {
			if names.Has(routeOf(n)) {
				out[n] = r
				delete(out, routeOf(n))
			}
		}
		return out
	}
	for n := range names.All() {
		out[n] = s.want[n]
	}
	return out
}

// next makes the next state if something differs.
func (s *fakeSlot) next(items map[string]*Resource) {
	txn := s.state.Items.Txn()
	var names []string
	for _, n := range slices.Sorted(maps.Keys(items)) {
		if old, had := s.state.Items.Get(n); !had || old != items[n] {
			txn.Set(n, items[n])
			names = append(names, n)
		}
	}
	for n := range s.state.Items.All() {
		if _, ok := items[n]; !ok {
			txn.Delete(n)
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return
	}
	recent := s.state.Recent
	if len(recent) >= 3 {
		recent = recent[len(recent)-2:]
	}
	d := &Delta{Gen: s.state.Gen + 1, Names: names}
	s.state = &State{Slot: s.slot, Gen: d.Gen, Items: txn.Commit(), Recent: append(slices.Clip(recent), d)}
}

// apply takes a request's effects.
func (w *fakeWorld) apply(eff Effects) (changed bool) {
	for _, t := range eff.Use {
		changed = changed || !w.uses[t]
		w.uses[t] = true
	}
	for _, d := range eff.Demand {
		w.demand[d.TypeURL] = d.Names
		changed = true
	}
	return changed
}

func newTestSession(delta bool, w *fakeWorld, timing Timing) *Session {
	n := 0
	return NewSession(SessionConfig{
		Delta: delta, Serves: w.serves, Names: NewNameSets(), Bodies: NewBodies(), Timing: timing,
		Nonce: func() string { n++; return fmt.Sprintf("#%d", n) },
	})
}

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// wireResponse is a response as a client decodes it.
type wireResponse struct {
	typeURL, version, nonce string
	resources               map[string]string // name to content
	order                   []string
	versions                map[string]string
	removed                 []string
}

func decode(t failer, delta bool, r *Response) wireResponse {
	t.Helper()
	raw := r.Buffers().Materialize()
	out := wireResponse{resources: map[string]string{}, versions: map[string]string{}}
	add := func(name string, value []byte) {
		out.order = append(out.order, name)
		if _, twice := out.resources[name]; twice {
			t.Errorf("%s: %q is twice in one response", r.TypeURL, name)
		}
		out.resources[name] = string(value[len(name)+1:])
	}
	if delta {
		var m discoveryv3.DeltaDiscoveryResponse
		if err := proto.Unmarshal(raw, &m); err != nil {
			t.Fatalf("decode: %v", err)
		}
		for _, res := range m.Resources {
			if res.Resource.TypeUrl != m.TypeUrl {
				t.Errorf("%s holds %s", m.TypeUrl, res.Resource.TypeUrl)
			}
			add(res.Name, res.Resource.Value)
			out.versions[res.Name] = res.Version
		}
		out.typeURL, out.version, out.nonce, out.removed = m.TypeUrl, m.SystemVersionInfo, m.Nonce, m.RemovedResources
		return out
	}
	var m discoveryv3.DiscoveryResponse
	if err := proto.Unmarshal(raw, &m); err != nil {
		t.Fatalf("decode: %v", err)
	}
	for _, a := range m.Resources {
		name := string(a.Value)
		for i := range name {
			if name[i] == '=' {
				name = name[:i]
				break
			}
		}
		add(name, a.Value)
	}
	out.typeURL, out.version, out.nonce = m.TypeUrl, m.VersionInfo, m.Nonce
	return out
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
