package view

import (
	"net/netip"
	"slices"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// Addresses returns the addresses (IPs, for ServiceEntries also CIDRs) at which the proxy can reach s, the listener's
// own first. It is empty for services without any: headless ones, and names that are resolved. It reads the proxy's
// cluster, families and DNS capture only where they can make a difference.
func (c *Context) Addresses(s *model.Service) []string {
	if given := s.ClusterVIPs[""]; len(given) > 0 {
		return given // written by the user: for everybody
	}
	if len(s.ClusterVIPs) > 0 {
		if vips := c.ofFamily(s.ClusterVIPs[c.ClusterID()]); len(vips) > 0 {
			return vips
		}
	}
	if auto := c.autoAddresses(s); len(auto) > 0 {
		return auto
	}
	a, err := netip.ParseAddr(s.Address)
	switch {
	case s.Address == "" || err == nil && a.IsUnspecified():
		return nil
	case err != nil || s.Registry != model.Kubernetes:
		return []string{s.Address}
	}
	if len(s.ClusterVIPs) == 0 || len(s.ClusterVIPs[c.ClusterID()]) > 0 {
		return []string{s.Address} // the proxy's own cluster gave it: it is called there whatever its family
	}
	return c.ofFamily([]string{s.Address})
}

// autoAddresses returns the addresses allocated to s, for proxies that answer names with them.
func (c *Context) autoAddresses(s *model.Service) []string {
	if s.AutoV4 == "" && s.AutoV6 == "" {
		return nil
	}
	if c.Type() != Waypoint {
		if !c.DNSCapture() || !c.Settings().EnableIPAutoallocate && c.Meta("DNS_AUTO_ALLOCATE") != "true" {
			return nil
		}
	}
	var out []string
	for _, a := range [2]string{s.AutoV4, s.AutoV6} {
		if a != "" {
			out = append(out, a)
		}
	}
	return c.ofFamily(out)
}

// ofFamily keeps the addresses that the proxy can use. Without dual stack a proxy of both families uses only the family
// of the first.
func (c *Context) ofFamily(addresses []string) []string {
	if len(addresses) == 0 {
		return nil
	}
	four, six := true, true
	switch c.Family() {
	case IPv4:
		six = false
	case IPv6:
		four = false
	case DualStack:
		if !c.Settings().DualStack {
			four = isIPv4(addresses[0])
			six = !four
		}
	}
	usable := func(a string) bool {
		if isIPv4(a) {
			return four
		}
		return six
	}
	if !slices.ContainsFunc(addresses, func(a string) bool { return !usable(a) }) {
		return addresses
	}
	out := make([]string, 0, len(addresses))
	for _, a := range addresses {
		if usable(a) {
			out = append(out, a)
		}
	}
	return out
}

func isIPv4(s string) bool {
	if a, err := netip.ParseAddr(s); err == nil {
		return a.Is4() || a.Is4In6()
	}
	p, err := netip.ParsePrefix(s)
	return err == nil && p.Addr().Is4()
}
