package allocate

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networking "istio.io/api/networking/v1alpha3"
	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// serviceEntry returns one that is so many seconds old that those with lower ages are younger.
func serviceEntry(name string, age int, hosts ...string) *model.Object {
	return &model.Object{
		ObjectKey: model.ObjectKey{Kind: model.KindServiceEntry, Namespace: "shop", Name: name},
		Created:   time.Unix(int64(1000-age), 0),
		Spec:      &networking.ServiceEntry{Hosts: hosts, Resolution: networking.ServiceEntry_DNS},
	}
}

func with(o *model.Object, status ...string) *model.Object {
	c := *o
	s := &networking.ServiceEntryStatus{}
	for _, text := range status {
		value, host, _ := strings.Cut(text, " ")
		s.Addresses = append(s.Addresses, &networking.ServiceEntryAddress{Value: value, Host: host})
	}
	c.Status = s
	return &c
}

func given(o *model.Object, addresses ...string) *model.Object {
	o.Spec.(*networking.ServiceEntry).Addresses = addresses //nolint:forcetypeassert // see serviceEntry
	return o
}

func put(objects ...*model.Object) []model.Event {
	var out []model.Event
	for _, o := range objects {
		out = append(out, model.Event{Key: o.ObjectKey, Object: o})
	}
	return out
}

// wants is "value host" for all addresses of an object, with "!" behind if that is not what its status says.
func wants(a *Allocator, o *model.Object) string {
	w := a.Want(o.ObjectKey)
	text := plain(w.Addresses)
	if w.Differs {
		text += " !"
	}
	if w.Err != nil {
		text += " " + w.Err.Error()
	}
	return strings.TrimSpace(text)
}

func plain(addresses []*networking.ServiceEntryAddress) string {
	var out []string
	for _, x := range addresses {
		out = append(out, x.GetValue()+" "+x.GetHost())
	}
	return strings.Join(out, ", ")
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// TestAllocator goes through what may happen to addresses.
func TestAllocator(t *testing.T) {
	t.Parallel()
	a := New(DefaultRanges())
	one, two := serviceEntry("one", 9, "a.com", "b.com", "a.com", "*.c.com"), serviceEntry("two", 8, "d.com")
	a.Apply(put(one, two))
	const ones = "240.240.0.1 a.com, 2001:2::1 a.com, 240.240.0.2 b.com, 2001:2::2 b.com"
	expect(t, "hosts each once, wildcards never", wants(a, one), ones+" !")
	expect(t, "the next in order", wants(a, two), "240.240.0.3 d.com, 2001:2::3 d.com !")
	one = with(one, strings.Split(ones, ", ")...)
	a.Apply(put(one))
	expect(t, "written", wants(a, one), ones)

	backup := with(serviceEntry("backup", 1, "e.com"), "240.240.0.1 e.com", "2001:2::9 e.com")
	if got := a.Apply(put(backup)); !slices.Equal(got, []model.ObjectKey{backup.ObjectKey}) {
		t.Errorf("a younger object concerns %v", got)
	}
	expect(t, "a younger object with an address that is taken", wants(a, backup), "240.240.0.4 e.com, 2001:2::9 e.com !")
	older := with(serviceEntry("older", 10, "f.com"), "240.240.0.1 f.com")
	a.Apply(put(older))
	expect(t, "an older object with an address that is taken", wants(a, older), "240.240.0.1 f.com, 2001:2::4 f.com !")
	expect(t, "it moves the younger one", wants(a, one), strings.Replace(ones, "0.1", "0.5", 1)+" !")

	a.Apply(put(given(serviceEntry("user", 0, "g.com"), "240.240.0.0/29")))
	expect(t, "a user's range moves all", wants(a, one), "240.240.0.9 a.com, 2001:2::1 a.com, 240.240.0.10 b.com, 2001:2::2 b.com !")

	off := serviceEntry("two", 8, "d.com")
	off.Labels = map[string]string{"networking.istio.io/enable-autoallocate-ip": "False"}
	a.Apply(put(with(off, "240.240.0.3 d.com")))
	expect(t, "no longer eligible", wants(a, off), "!")
	a.Apply(put(with(off)))
	expect(t, "cleared", wants(a, off), "")
	a.Apply([]model.Event{{Key: off.ObjectKey}})
	expect(t, "gone", wants(a, off), "")
	dynamic := serviceEntry("dynamic", 1, "*.x.com")
	dynamic.Spec.(*networking.ServiceEntry).Resolution = networking.ServiceEntry_DYNAMIC_DNS //nolint:forcetypeassert // see serviceEntry
	a.Apply(put(dynamic))
	expect(t, "a wildcard of dynamic names", wants(a, dynamic), "240.240.0.13 *.x.com, 2001:2::5 *.x.com !")
}

// TestExhaustion takes a range of three addresses to its end, and back.
func TestExhaustion(t *testing.T) {
	t.Parallel()
	r := DefaultRanges()
	r.V4 = netip.MustParsePrefix("10.0.0.0/30")
	a := New(r)
	var entries []*model.Object
	for i := range 4 {
		entries = append(entries, serviceEntry(fmt.Sprint("se", i), 9-i, fmt.Sprintf("h%d.com", i)))
	}
	a.Apply(put(entries...))
	expect(t, "the last", wants(a, entries[2]), "10.0.0.3 h2.com, 2001:2::3 h2.com !")
	expect(t, "one too many", wants(a, entries[3]),
		"2001:2::4 h3.com ! ServiceEntry/shop/se3: no IPv4 address for h3.com is free in 10.0.0.0/30")
	if got := a.Apply([]model.Event{{Key: entries[1].ObjectKey}}); !slices.Contains(got, entries[3].ObjectKey) {
		t.Errorf("an address gets free, and concerns %v", got)
	}
	expect(t, "a deleted object's address, for want of others", wants(a, entries[3]), "10.0.0.2 h3.com, 2001:2::4 h3.com !")
	huge := given(serviceEntry("huge", 0, "x.com"), "2001:2::/32", "10.0.0.0/8")
	a.Apply(put(huge))
	if w := a.Want(entries[0].ObjectKey); len(w.Addresses) != 0 || w.Err == nil {
		t.Errorf("all is claimed: %v", w)
	}
}

// TestDeletedAddressesRest wants a deleted object's address to be given to another only when there is no other left, and
// back to the same object at once.
func TestDeletedAddressesRest(t *testing.T) {
	t.Parallel()
	r := DefaultRanges()
	r.V4 = netip.MustParsePrefix("10.0.0.0/29")
	a := New(r)
	for i := range 7 {
		o := serviceEntry("a", 1, "a.com")
		a.Apply(put(o))
		expect(t, "round", strings.Fields(wants(a, o))[0], fmt.Sprintf("10.0.0.%d", i+1))
		a.Apply([]model.Event{{Key: o.ObjectKey}})
	}
	again := with(serviceEntry("a", 1, "a.com"), "10.0.0.5 a.com")
	a.Apply(put(again))
	expect(t, "restored", strings.Fields(wants(a, again))[0], "10.0.0.5")
}

// history draws changes of a few objects, in small ranges so that there is conflict.
func history(t *rapid.T) [][]model.Event {
	object := rapid.Custom(func(t *rapid.T) model.Event {
		n := rapid.IntRange(0, 5).Draw(t, "object")
		o := serviceEntry(fmt.Sprint("se", n), n/2, rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "*.c"}), 1, 3).Draw(t, "hosts")...)
		if rapid.IntRange(0, 4).Draw(t, "gone") == 0 {
			return model.Event{Key: o.ObjectKey}
		}
		addresses := rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2/31", "10.0.0.0/29", "fd00::2", "x", "9.9.9.9"}), 1, 2)
		if rapid.IntRange(0, 5).Draw(t, "claims") == 0 {
			given(o, addresses.Draw(t, "addresses")...)
		}
		if rapid.Bool().Draw(t, "status") {
			value := rapid.SampledFrom([]string{"10.0.0.1 a", "10.0.0.2 b", "10.0.0.3 a", "10.0.0.9 a", "fd00::1 a", "fd00::2 b", "x a", "10.0.0.4 z"})
			o = with(o, rapid.SliceOfN(value, 0, 4).Draw(t, "addresses of the status")...)
		}
		return model.Event{Key: o.ObjectKey, Object: o}
	})
	return rapid.SliceOfN(rapid.SliceOfN(object, 1, 4), 1, 8).Draw(t, "history")
}

func small() Ranges {
	return Ranges{V4: netip.MustParsePrefix("10.0.0.0/28"), V6: netip.MustParsePrefix("fd00::/64")}
}

// TestAllocatorKeepsItsWord draws histories: no address is given twice or against a spec, every eligible host has one of
// each family unless all are taken, equal histories give equal addresses, and one that writes what is wanted gets quiet.
func TestAllocatorKeepsItsWord(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := New(small()), New(small())
		world := map[model.ObjectKey]*model.Object{}
		for _, events := range history(t) {
			for _, e := range events {
				if world[e.Key] = e.Object; e.Object == nil {
					delete(world, e.Key)
				}
			}
			if x, y := a.Apply(events), b.Apply(events); !slices.Equal(x, y) {
				t.Fatalf("equal histories concern %v and %v", x, y)
			}
			check(t, a, world)
			for k := range world {
				if x, y := plain(a.Want(k).Addresses), plain(b.Want(k).Addresses); x != y {
					t.Fatalf("%s: %s in one, %s in the other", k, x, y)
				}
			}
		}
		before := written(a, world)
		a.Apply(put(slices.Collect(maps.Values(before))...))
		restarted := New(small())
		restarted.Apply(put(slices.Collect(maps.Values(before))...))
		for k := range before {
			for name, x := range map[string]*Allocator{"written": a, "restarted": restarted} {
				if w := x.Want(k); w.Differs {
					t.Fatalf("%s, %s: wants %s and has %s", name, k, plain(w.Addresses), plain(statusAddresses(before[k])))
				}
			}
		}
	})
}

// written returns the world with what is wanted in the statuses.
func written(a *Allocator, world map[model.ObjectKey]*model.Object) map[model.ObjectKey]*model.Object {
	out := map[model.ObjectKey]*model.Object{}
	for k, o := range world {
		c := *o
		c.Status = &networking.ServiceEntryStatus{Addresses: a.Want(k).Addresses}
		out[k] = &c
	}
	return out
}

func check(t *rapid.T, a *Allocator, world map[model.ObjectKey]*model.Object) {
	taken := map[string]string{}
	var claims []netip.Prefix
	for _, o := range world {
		claims = append(claims, read(o).given...)
	}
	for k, o := range world {
		w := a.Want(k)
		for _, x := range w.Addresses {
			if other := taken[x.GetValue()]; other != "" {
				t.Fatalf("%s is %s's and %s's", x.GetValue(), other, k)
			}
			taken[x.GetValue()] = k.String()
			at := netip.MustParseAddr(x.GetValue())
			if slices.ContainsFunc(claims, func(p netip.Prefix) bool { return p.Contains(at) }) {
				t.Fatalf("%s has %s, which is claimed", k, at)
			}
		}
		if want := len(read(o).slots); w.Err == nil && len(w.Addresses) != want {
			t.Fatalf("%s: %d addresses of %d, and no error", k, len(w.Addresses), want)
		}
	}
	for k := range world {
		if w := a.Want(k); w.Err != nil && len(taken) == 0 && len(claims) == 0 {
			t.Fatalf("%s goes without in an empty world: %v", k, w.Err)
		}
	}
}

// TestAddressesStay wants objects to keep theirs whatever becomes of others, as long as nobody claims them.
func TestAddressesStay(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a := New(DefaultRanges())
		world := map[model.ObjectKey]*model.Object{}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			n := rapid.IntRange(0, 6).Draw(t, "object")
			o := serviceEntry(fmt.Sprint("se", n), n, rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3).Draw(t, "hosts")...)
			e := model.Event{Key: o.ObjectKey}
			if rapid.IntRange(0, 3).Draw(t, "stays") > 0 {
				e.Object = o
			}
			before := written(a, world)
			a.Apply([]model.Event{e})
			for k, b := range before {
				if k != e.Key && !Same(a.Want(k).Addresses, statusAddresses(b)) {
					t.Fatalf("%s had %s and has %s", k, plain(statusAddresses(b)), plain(a.Want(k).Addresses))
				}
			}
			if world[e.Key] = e.Object; e.Object == nil {
				delete(world, e.Key)
			}
			world = written(a, world)
			a.Apply(put(slices.Collect(maps.Values(world))...))
		}
	})
}
