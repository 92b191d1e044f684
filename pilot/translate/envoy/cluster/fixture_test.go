package cluster_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/cluster"
	"github.com/mizzen-mesh/mizzen/pilot/translate/fixture"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// world is a PushContext of an archive's files: input.yaml, mesh.yaml and env (NAME=value lines).
type world struct {
	pc    *model.PushContext
	graph *cell.Graph
	slots []*translate.Slot
}

func newWorld(t testing.TB, a *txtar.Archive) *world {
	t.Helper()
	mesh, err := meshconfig.Parse(fixture.File(a, "mesh.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	events := fixture.Events(t, fixture.File(a, "input.yaml"))
	w := &world{graph: cell.New(), slots: []*translate.Slot{cluster.OutboundSlot(), cluster.InboundSlot()}}
	w.pc, _ = model.NewBuilder(settings(t, string(fixture.File(a, "env"))), mesh).Apply(events, nil)
	view.DefineScope(w.graph, func() *model.PushContext { return w.pc })
	return w
}

func settings(t testing.TB, env string) *model.Settings {
	t.Helper()
	s := model.DefaultSettings()
	s.Raw = map[string]string{}
	for line := range strings.FieldsSeq(env) {
		name, value, _ := strings.Cut(line, "=")
		on := value == "true"
		switch name {
		case "PILOT_ENABLE_AMBIENT":
			s.EnableAmbient = on
		case "ISTIO_DUAL_STACK":
			s.DualStack = on
		case "PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS":
			s.AutoSendUnhealthy = on
		case "PILOT_ENABLE_REDIS_FILTER":
			s.EnableRedisFilter = on
		case "ENABLE_LOCALITY_WEIGHTED_LB_CONFIG":
			s.EnableLocalityWeightedLB = on
		case "PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES":
			s.EnableEDSForHeadless = on
		default:
			s.Raw[name] = value
		}
	}
	return s
}

func (w *world) context(p *view.Proxy, rec *cell.Recorder) *view.Context {
	v := view.Of(model.NewReader(w.pc, nil), p)
	return view.NewContext(w.pc, rec, w.graph, v)
}

// clusters returns all clusters of a proxy, in order; each must be what Envoy's own rules allow.
func (w *world) clusters(t testing.TB, p *view.Proxy) []*translate.Message {
	t.Helper()
	var out []*translate.Message
	names := map[string]bool{}
	for _, s := range w.slots {
		for _, u := range s.Units(w.context(p, nil)) {
			messages, err := s.Build(w.context(p, nil), u)
			if err != nil {
				t.Errorf("%s %v: %v", s.Name, u, err)
			}
			for _, m := range messages {
				if v, ok := m.Proto.(interface{ ValidateAll() error }); !ok || v.ValidateAll() != nil {
					t.Errorf("%s: %v", m.Name, v.ValidateAll())
				}
				if names[m.Name] {
					t.Errorf("%s: two clusters have the name %s", s.Name, m.Name)
				}
				names[m.Name] = true
			}
			out = append(out, messages...)
		}
	}
	return out
}

// text renders a cluster with one field a line.
func text(t testing.TB, m proto.Message) string {
	t.Helper()
	js, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(js, &fields); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for k, v := range fields {
		var value any
		if err := json.Unmarshal(v, &value); err != nil {
			t.Fatal(err)
		}
		compact, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if k != "name" {
			lines = append(lines, "  "+k+": "+string(shorten(compact)))
		}
	}
	return strings.Join(sorted(lines), "\n") + "\n"
}

// shorten takes out what is the same everywhere and says nothing.
func shorten(js []byte) []byte {
	js = bytes.ReplaceAll(js, []byte("type.googleapis.com/envoy.extensions."), []byte("…"))
	return bytes.ReplaceAll(js, []byte("type.googleapis.com/"), []byte("…"))
}
