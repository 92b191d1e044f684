package differential

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
)

// everydayChecks is how many histories each test lives through unless RAPID_CHECKS or -rapid.checks says otherwise.
const everydayChecks = "100"

func TestMain(m *testing.M) {
	if _, set := os.LookupEnv("RAPID_CHECKS"); !set {
		if err := flag.Set("rapid.checks", everydayChecks); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// TestHistories: after each step of a random history the engine that followed it holds what an engine from scratch
// makes of the same objects, and in the end so do proxies fed by increments and by the state of the world, however
// they answered on the way.
func TestHistories(t *testing.T) {
	t.Parallel()
	var longest time.Duration
	steps := 0
	rapid.Check(t, func(rt *rapid.T) {
		settings := model.DefaultSettings()
		settings.VHDS = pick(rt, "VHDS", model.VHDSOff, model.VHDSOff, model.VHDSOn)
		list := rapid.SliceOfNDistinct(rapid.SampledFrom(members()), 2, 4, func(m member) string { return m.name }).Draw(rt, "members")
		h, err := newHistory(rt, settings, list)
		fatalIf(rt, err)
		defer h.plane.stop()
		fatalIf(rt, h.apply(drawEdits(rt, 10, 25), nil))
		for _, s := range h.streams {
			fatalIf(rt, s.connect())
		}
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			var mesh *model.Mesh
			if rapid.IntRange(0, 5).Draw(rt, "new mesh") == 0 {
				mesh = parsed(rt, drawMesh(rt))
			}
			fatalIf(rt, h.apply(drawEdits(rt, 0, 5), mesh))
			steps++
			_, err := h.check()
			fatalIf(rt, err)
			for _, s := range h.streams {
				fatalIf(rt, s.live(pick(rt, "life of "+s.String(), "settle", "answer", "answer", "receive", "wait", "idle", "reconnect"), rt))
			}
		}
		want, err := h.check()
		fatalIf(rt, err)
		took, err := h.end(want)
		fatalIf(rt, err)
		longest = max(longest, took)
	})
	t.Logf("%d steps; the slowest proxy came to rest after %v", steps, longest)
}

func parsed(t *rapid.T, texts []string) *model.Mesh {
	t.Helper()
	var in [][]byte
	for _, x := range texts {
		in = append(in, []byte(x))
	}
	m, err := meshconfig.Parse(in...)
	fatalIf(t, err)
	return m
}

func fatalIf(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
