package allocate

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// Ranges are what addresses are taken from; a prefix's own first address, which names the network, never is.
type Ranges struct {
	V4, V6 netip.Prefix
}

// DefaultRanges returns 240.240.0.0/16, which the internet reserves, and 2001:2::/48, which is for benchmarks.
func DefaultRanges() Ranges {
	return Ranges{
		V4: netip.PrefixFrom(netip.AddrFrom4([4]byte{240, 240}), 16),
		V6: netip.PrefixFrom(netip.AddrFrom16([16]byte{0x20, 0x01, 0, 2}), 48),
	}
}

// ParseRange reads a prefix of one family.
func ParseRange(text string, six bool) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	family := "IPv4"
	if six {
		family = "IPv6"
	}
	switch {
	case err != nil:
		return p, fmt.Errorf("%q is not a range of addresses: %w", text, err)
	case p.Addr().Is4() == six || p.Addr().Is4In6():
		return p, fmt.Errorf("%q is not a range of %s addresses", text, family)
	case p.IsSingleIP():
		return p, fmt.Errorf("%q has no address besides the network's own", text)
	}
	return p.Masked(), nil
}

// of returns the range of a family.
func (r Ranges) of(six bool) netip.Prefix {
	if six {
		return r.V6
	}
	return r.V4
}

// lastOf returns the highest address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	bytes := p.Masked().Addr().AsSlice()
	for bit := p.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

// nth returns an address of a prefix by a number of any size, never the network's own.
func nth(p netip.Prefix, n uint64) netip.Addr {
	bits := p.Addr().BitLen() - p.Bits()
	if bits < 64 {
		n %= 1<<bits - 1
	} else {
		n %= 1<<64 - 1
	}
	n++
	bytes := p.Masked().Addr().As16()
	low := binary.BigEndian.Uint64(bytes[8:])
	binary.BigEndian.PutUint64(bytes[8:], low|n) // the bits of n are 0 in a network's own address
	if p.Addr().Is4() {
		return netip.AddrFrom16(bytes).Unmap()
	}
	return netip.AddrFrom16(bytes)
}

// search returns the first free address between two, both included. used returns the last address of what holds an
// address, or none if that is free.
func search(from, to netip.Addr, used func(netip.Addr) netip.Addr) (netip.Addr, bool) {
	for at := from; at.IsValid() && at.Compare(to) <= 0; {
		last := used(at)
		if !last.IsValid() {
			return at, true
		}
		at = last.Next()
	}
	return netip.Addr{}, false
}

// circle searches a whole prefix, beginning at an address of it.
func circle(p netip.Prefix, from netip.Addr, used func(netip.Addr) netip.Addr) (netip.Addr, bool) {
	if a, ok := search(from, lastOf(p), used); ok {
		return a, true
	}
	return search(p.Masked().Addr().Next(), from.Prev(), used)
}

// claimed are the addresses and ranges that specs name, counted.
type claimed struct {
	count   map[netip.Prefix]int
	lengths map[int]int // how many different prefixes there are of a length; those of IPv4 are negative, less one
}

func newClaimed() claimed { return claimed{map[netip.Prefix]int{}, map[int]int{}} }

func lengthOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return -1 - p.Bits()
	}
	return p.Bits()
}

// add returns whether the prefix is new.
func (c claimed) add(p netip.Prefix) bool {
	c.count[p]++
	if c.count[p] > 1 {
		return false
	}
	c.lengths[lengthOf(p)]++
	return true
}

func (c claimed) remove(p netip.Prefix) {
	if c.count[p]--; c.count[p] > 0 {
		return
	}
	delete(c.count, p)
	if c.lengths[lengthOf(p)]--; c.lengths[lengthOf(p)] == 0 {
		delete(c.lengths, lengthOf(p))
	}
}

// covering returns the last address of the widest prefix that holds an address, or none.
func (c claimed) covering(a netip.Addr) netip.Addr {
	for _, l := range slices.SortedFunc(maps.Keys(c.lengths), func(x, y int) int { return max(x, -1-x) - max(y, -1-y) }) {
		if a.Is4() != (l < 0) {
			continue
		}
		if p, err := a.Prefix(max(l, -1-l)); err == nil && c.count[p] > 0 {
			return lastOf(p)
		}
	}
	return netip.Addr{}
}
