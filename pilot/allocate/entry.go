package allocate

import (
	"fmt"
	"net/netip"
	"slices"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// slot is a place for one address: one family of one host of one ServiceEntry.
type slot struct {
	key  model.ObjectKey
	host string
	six  bool
}

// String says what the slot is for, for errors.
func (s slot) String() string {
	if s.six {
		return "IPv6 address for " + s.host
	}
	return "IPv4 address for " + s.host
}

// entry is what counts of one ServiceEntry.
type entry struct {
	object *model.Object
	slots  []slot              // in order: hosts as written, IPv4 first
	has    map[slot]netip.Addr // the first address of each slot in the status
	given  []netip.Prefix      // the spec's addresses
}

// read returns what counts of an object, or nil if it is not a ServiceEntry.
func read(o *model.Object) *entry {
	if o == nil {
		return nil
	}
	spec, ok := o.Spec.(*networking.ServiceEntry)
	if !ok {
		return nil
	}
	e := &entry{object: o, has: map[slot]netip.Addr{}}
	for _, host := range spec.GetHosts() {
		s := slot{key: o.ObjectKey, host: host}
		if host == "" || slices.Contains(e.slots, s) || !model.AutoAllocates(o, host) {
			continue
		}
		e.slots = append(e.slots, s, slot{o.ObjectKey, host, true})
	}
	for _, text := range spec.GetAddresses() {
		if p, ok := prefixOf(text); ok && !slices.Contains(e.given, p) {
			e.given = append(e.given, p)
		}
	}
	for _, a := range statusAddresses(o) {
		ip, err := netip.ParseAddr(a.GetValue())
		if err != nil || ip.Is4In6() || ip.Zone() != "" {
			continue
		}
		s := slot{o.ObjectKey, a.GetHost(), ip.Is6()}
		if _, more := e.has[s]; !more && slices.Contains(e.slots, s) {
			e.has[s] = ip
		}
	}
	return e
}

// prefixOf reads an IP or a CIDR.
func prefixOf(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		a = a.WithZone("").Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

func statusAddresses(o *model.Object) []*networking.ServiceEntryAddress {
	s, ok := o.Status.(*networking.ServiceEntryStatus)
	if !ok {
		return nil
	}
	return s.GetAddresses()
}

// older orders slots: by the age of their objects, then as their object names them.
func older(a, b *entry, s, t slot) int {
	if s.key == t.key {
		return slices.Index(a.slots, s) - slices.Index(a.slots, t)
	}
	if c := model.Older(a.object, b.object); c != 0 {
		return c
	}
	return s.key.Compare(t.key)
}

// exhausted is the error of a slot that gets no address.
func exhausted(s slot, r Ranges) error {
	return fmt.Errorf("%s: no %s is free in %s", s.key, s, r.of(s.six))
}
