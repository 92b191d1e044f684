package allocate

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

// TestAssign wants addresses that follow from names, and statuses of manifests left alone.
func TestAssign(t *testing.T) {
	t.Parallel()
	one := serviceEntry("one", 1, "a.com")
	got, problems := Assign([]*model.Object{one}, DefaultRanges())
	if len(problems) > 0 {
		t.Error(problems)
	}
	const first = "240.240.93.119 a.com, 2001:2::1eda:1376:4047:eadf a.com"
	expect(t, "alone", plain(statusAddresses(got[one.ObjectKey])), first)
	if one.Status != nil {
		t.Error("the object itself has changed")
	}
	restored := with(serviceEntry("z", 1, "z.com", "y.com"), "240.240.93.119 z.com")
	ip := given(serviceEntry("ip", 1, "b.com"), "240.240.93.120")
	got, _ = Assign([]*model.Object{restored, serviceEntry("two", 1, "a.com"), ip, one}, DefaultRanges())
	expect(t, "what is taken is passed over", statusAddresses(got[one.ObjectKey])[0].GetValue(), "240.240.93.121")
	expect(t, "a second of the same name", statusAddresses(got[model.ObjectKey{Kind: model.KindServiceEntry, Namespace: "shop", Name: "two"}])[0].GetValue(), "240.240.93.122")
	expect(t, "a status that is there", statusAddresses(got[restored.ObjectKey])[0].GetValue(), "240.240.93.119")
	if n := len(statusAddresses(got[restored.ObjectKey])); n != 4 {
		t.Errorf("%d addresses of 4", n)
	}
	if got[ip.ObjectKey] != nil {
		t.Error("one with addresses gets more")
	}
}

// world is a sink that keeps what it is sent.
type world struct {
	objects  map[model.ObjectKey]*model.Object
	problems []source.Problem
}

func (w *world) Events(_ string, events []model.Event) {
	for _, e := range events {
		if w.objects[e.Key] = e.Object; e.Object == nil {
			delete(w.objects, e.Key)
		}
	}
}

func (*world) Synced(string)                                  {}
func (w *world) Problems(_ string, problems []source.Problem) { w.problems = problems }

// script is a source that delivers lists of events one after the other, and calls after each.
type script struct {
	batches [][]model.Event
	after   func(events []model.Event)
}

func (script) Name() string { return "script" }

func (s script) Run(_ context.Context, sink source.Sink) error {
	for _, b := range s.batches {
		sink.Events("script", b)
		s.after(b)
	}
	sink.Problems("script", []source.Problem{{Code: "yaml"}})
	return nil
}

// TestSourceIsAssign draws histories of a directory: what has been sent is at any time what Assign makes of all objects
// in whatever order, and no address is there twice.
func TestSourceIsAssign(t *testing.T) {
	t.Parallel()
	r := small()
	r.V4 = netip.MustParsePrefix("10.0.0.0/29")
	rapid.Check(t, func(t *rapid.T) {
		raw, out := map[model.ObjectKey]*model.Object{}, &world{objects: map[model.ObjectKey]*model.Object{}}
		after := func(events []model.Event) {
			for _, e := range events {
				if raw[e.Key] = e.Object; e.Object == nil {
					delete(raw, e.Key)
				}
			}
			want, problems := assigned(rapid.Permutation(slices.Collect(maps.Values(raw))).Draw(t, "order"), r)
			if len(want) != len(out.objects) || len(problems) != len(out.problems) {
				t.Fatalf("%d objects of %d, %d problems of %d", len(out.objects), len(want), len(out.problems), len(problems))
			}
			for _, o := range want {
				if a, b := plain(statusAddresses(o)), plain(statusAddresses(out.objects[o.ObjectKey])); a != b {
					t.Fatalf("%s: sent %s, want %s", o.ObjectKey, b, a)
				}
			}
			distinct(t, raw, want)
		}
		if err := NewSource(script{history(t), after}, r).Run(t.Context(), out); err != nil {
			t.Fatal(err)
		}
		if len(out.problems) == 0 || out.problems[0].Code != "yaml" {
			t.Fatalf("problems %v", out.problems)
		}
	})
}

// assigned returns a list of objects in which the ServiceEntries have what Assign gives them.
func assigned(objects []*model.Object, r Ranges) ([]*model.Object, []source.Problem) {
	given, problems := Assign(objects, r)
	out := slices.Clone(objects)
	for i, o := range out {
		if f := given[o.ObjectKey]; f != nil {
			out[i] = f
		}
	}
	return out, problems
}

// distinct checks that no address that was assigned is another's.
func distinct(t *rapid.T, raw map[model.ObjectKey]*model.Object, filled []*model.Object) {
	count := map[string]int{}
	for _, o := range filled {
		for _, at := range read(o).has {
			count[at.String()]++
		}
	}
	for _, o := range filled {
		had := statusAddresses(raw[o.ObjectKey])
		for _, a := range statusAddresses(o)[len(had):] {
			if count[a.GetValue()] != 1 {
				t.Fatalf("%s has %s, which is there %d times", o.ObjectKey, a.GetValue(), count[a.GetValue()])
			}
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for text, good := range map[string][2]bool{
		"10.1.2.3/8": {true, false}, "fd00::1/64": {false, true}, "10.0.0.1/32": {}, "::/128": {}, "10.0.0.1": {}, "": {}, "::ffff:10.0.0.0/104": {},
	} {
		for i, six := range []bool{false, true} {
			p, err := ParseRange(text, six)
			if (err == nil) != good[i] || err == nil && p != p.Masked() {
				t.Errorf("%q: %v, %v", text, p, err)
			}
		}
	}
	for p, want := range map[string]string{
		"10.0.0.0/30": "10.0.0.1 10.0.0.3 10.0.0.1", "fd00::/64": "fd00::1 fd00::3 fd00::4", "fd00::/126": "fd00::1 fd00::3 fd00::1",
	} {
		q := netip.MustParsePrefix(p)
		if got := fmt.Sprint(nth(q, 0), " ", nth(q, 2), " ", nth(q, 3)); got != want {
			t.Errorf("%s: %s, want %s", p, got, want)
		}
	}
	expect(t, "the end", lastOf(netip.MustParsePrefix("fd00::/48")).String(), "fd00::ffff:ffff:ffff:ffff:ffff")
}
