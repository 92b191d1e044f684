package allocate

import (
	"errors"
	"maps"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// Allocator decides which host of which ServiceEntry has which address. It is a state machine without I/O, for use by one
// goroutine. Equal histories give equal addresses.
//
// What a status holds stays, unless a spec claims the address or an older object's status has it too. New addresses are
// taken in order, so that a freed one is not soon used again; those of deleted objects come last of all, since clients may
// still hold them.
type Allocator struct {
	ranges   Ranges
	next     map[bool]netip.Addr // where to search, by family
	entries  map[model.ObjectKey]*entry
	held     map[slot]netip.Addr
	holder   map[netip.Addr]slot
	retired  map[netip.Addr]struct{}
	claimed  claimed
	starving map[slot]struct{} // without an address
}

// New returns an allocator that knows nothing yet. All that is there at the start belongs in its first Apply, so that what
// is taken is known before anything is given away.
func New(r Ranges) *Allocator {
	return &Allocator{
		ranges: r, next: map[bool]netip.Addr{false: r.V4.Masked().Addr().Next(), true: r.V6.Masked().Addr().Next()},
		entries: map[model.ObjectKey]*entry{}, held: map[slot]netip.Addr{}, holder: map[netip.Addr]slot{},
		retired: map[netip.Addr]struct{}{}, claimed: newClaimed(), starving: map[slot]struct{}{},
	}
}

// change is one Apply at work.
type change struct {
	*Allocator
	concerned map[model.ObjectKey]struct{}
	open      map[slot]struct{} // to be decided anew
	fresh     []netip.Prefix    // newly claimed by specs
}

// Apply takes changes, of whatever kind, and returns the ServiceEntries that Want may say something new about, in order.
func (a *Allocator) Apply(events []model.Event) []model.ObjectKey {
	c := &change{Allocator: a, concerned: map[model.ObjectKey]struct{}{}, open: map[slot]struct{}{}}
	for _, e := range events {
		if e.Key.Kind == model.KindServiceEntry {
			c.take(e)
		}
	}
	if len(c.concerned) == 0 {
		return nil
	}
	c.evict()
	c.keep()
	c.give()
	return slices.SortedFunc(maps.Keys(c.concerned), model.ObjectKey.Compare)
}

// take replaces an entry.
func (c *change) take(e model.Event) {
	old, now := c.entries[e.Key], read(e.Object)
	c.concerned[e.Key] = struct{}{}
	if old == nil {
		old = &entry{}
	}
	if now == nil {
		delete(c.entries, e.Key)
		now = &entry{}
	} else {
		c.entries[e.Key] = now
	}
	for _, p := range now.given {
		if c.claimed.add(p) {
			c.fresh = append(c.fresh, p)
		}
	}
	for _, p := range old.given {
		c.claimed.remove(p)
	}
	for _, s := range old.slots {
		if slices.Contains(now.slots, s) {
			continue
		}
		if at, ok := c.held[s]; ok && now.object == nil {
			c.retired[at] = struct{}{}
		}
		c.release(s)
		delete(c.open, s)
		delete(c.starving, s)
	}
	for _, s := range now.slots {
		if _, ok := c.held[s]; !ok || now.has[s] != old.has[s] {
			c.open[s] = struct{}{}
		}
	}
}

func (a *Allocator) release(s slot) {
	if at, ok := a.held[s]; ok {
		delete(a.held, s)
		delete(a.holder, at)
	}
}

func (a *Allocator) hold(s slot, at netip.Addr) {
	a.release(s)
	a.held[s], a.holder[at] = at, s
	delete(a.retired, at)
	delete(a.starving, s)
}

// evict takes from slots what specs now claim.
func (c *change) evict() {
	for _, p := range c.fresh {
		if p.IsSingleIP() {
			if s, ok := c.holder[p.Addr()]; ok {
				c.displace(s)
			}
			continue
		}
		for at, s := range c.holder {
			if p.Contains(at) {
				c.displace(s)
			}
		}
	}
}

func (c *change) displace(s slot) {
	c.release(s)
	c.open[s] = struct{}{}
	c.concerned[s.key] = struct{}{}
}

func (c *change) sorted(set map[slot]struct{}) []slot {
	return slices.SortedFunc(maps.Keys(set), func(s, t slot) int { return older(c.entries[s.key], c.entries[t.key], s, t) })
}

// keep lets slots have what their status says, the oldest first.
func (c *change) keep() {
	for _, s := range c.sorted(c.open) {
		at, ok := c.entries[s.key].has[s]
		if !ok || c.held[s] == at || c.claimed.covering(at).IsValid() {
			continue
		}
		if t, taken := c.holder[at]; taken {
			if older(c.entries[s.key], c.entries[t.key], s, t) > 0 {
				continue
			}
			c.displace(t)
		}
		c.hold(s, at)
	}
}

// give finds addresses for the slots that have none.
func (c *change) give() {
	for s := range c.open {
		if _, ok := c.held[s]; !ok {
			c.starving[s] = struct{}{}
		}
	}
	full := map[bool]bool{}
	for _, s := range c.sorted(c.starving) {
		if full[s.six] {
			continue
		}
		at, ok := c.free(s.six)
		if !ok {
			full[s.six] = true
			continue
		}
		c.hold(s, at)
		c.concerned[s.key] = struct{}{}
	}
}

// free returns the next free address of a family.
func (a *Allocator) free(six bool) (netip.Addr, bool) {
	used := func(at netip.Addr) netip.Addr {
		if _, taken := a.holder[at]; taken {
			return at
		}
		return a.claimed.covering(at)
	}
	p := a.ranges.of(six)
	at, ok := circle(p, a.next[six], func(at netip.Addr) netip.Addr {
		if _, gone := a.retired[at]; gone {
			return at
		}
		return used(at)
	})
	if !ok {
		at, ok = circle(p, a.next[six], used)
	}
	if ok {
		a.next[six] = at.Next()
		if !p.Contains(a.next[six]) {
			a.next[six] = p.Masked().Addr().Next()
		}
	}
	return at, ok
}

// Want is what the status of a ServiceEntry is to hold.
type Want struct {
	// Object is the ServiceEntry as it was last seen.
	Object *model.Object
	// Addresses is empty if no host is eligible.
	Addresses []*networking.ServiceEntryAddress
	// Differs tells whether Object's status holds something else.
	Differs bool
	// Err names the hosts that go without an address.
	Err error
}

// Want returns what an object's status is to hold. Without such an object it is the zero Want.
func (a *Allocator) Want(k model.ObjectKey) Want {
	e := a.entries[k]
	if e == nil {
		return Want{}
	}
	w := Want{Object: e.object}
	for _, s := range e.slots {
		if at, ok := a.held[s]; ok {
			w.Addresses = append(w.Addresses, &networking.ServiceEntryAddress{Value: at.String(), Host: s.host})
		} else {
			w.Err = errors.Join(w.Err, exhausted(s, a.ranges))
		}
	}
	w.Differs = !Same(w.Addresses, statusAddresses(e.object))
	return w
}

// Same tells whether two lists hold the same addresses, in whatever order.
func Same(a, b []*networking.ServiceEntryAddress) bool {
	if len(a) != len(b) {
		return false
	}
	count := map[[2]string]int{}
	for i := range a {
		count[[2]string{a[i].GetHost(), a[i].GetValue()}]++
		count[[2]string{b[i].GetHost(), b[i].GetValue()}]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
