package fuzz

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/tests/accept"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// TestEnvoyTakesAnyObject has a stock Envoy judge what is made of drawn objects, mended or not, one after another.
// FUZZ_ENVOY is how long each kind is drawn (default 5 s).
func TestEnvoyTakesAnyObject(t *testing.T) {
	t.Parallel()
	long := 5 * time.Second
	if text := os.Getenv("FUZZ_ENVOY"); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	authority := harness.NewAuthority(t)
	for _, k := range targets() {
		t.Run(string(k.kind), func(t *testing.T) {
			t.Parallel()
			f := newFixed(t)
			p := accept.New(t, accept.Options{Objects: f.objects, Node: f.nodes[0], Authority: authority})
			harness.Eventually(t, 40*time.Second, p.Settled)
			n := 0
			defer func() { t.Logf("%d objects", n) }()
			for end := time.Now().Add(long); time.Now().Before(end); n++ {
				judge(t, p, k, n)
			}
			if err := p.Refused(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// judge draws one object in place of the one before.
func judge(t *testing.T, p *accept.Pair, k target, seed int) {
	t.Helper()
	o := rapid.Custom(func(r *rapid.T) *model.Object {
		o, _ := k.draw(r)
		return o
	}).Example(seed)
	before := p.Server.Generation()
	p.Change(model.Event{Key: o.ObjectKey, Object: o})
	settled := func(ctx context.Context) error {
		if p.Server.Generation() == before {
			return errors.New("the change is still to come")
		}
		return p.Settled(ctx)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := harness.Poll(ctx, settled)
	if err == nil {
		err = p.Refused(ctx)
	}
	if err != nil {
		spec, _ := o.Spec.(proto.Message)
		t.Fatalf("%v\nof the drawing %d: %s", err, seed, protojson.Format(spec))
	}
}
