package listener

import (
	"net/netip"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

const (
	anyIPv4    = "0.0.0.0"
	anyIPv6    = "::"
	unixPrefix = "unix://"
)

// wildcards are the addresses that stand for all of a proxy's own, the primary one first.
func wildcards(f view.Family) []string {
	switch f {
	case view.IPv6:
		return []string{anyIPv6}
	case view.DualStack:
		return []string{anyIPv4, anyIPv6}
	}
	return []string{anyIPv4}
}

// loopbacks are the addresses at which a workload reaches its own proxy, the primary one first.
func loopbacks(f view.Family) []string {
	switch f {
	case view.IPv6:
		return []string{"::1"}
	case view.DualStack:
		return []string{"127.0.0.1", "::1"}
	}
	return []string{"127.0.0.1"}
}

func isWildcard(bind string) bool { return bind == anyIPv4 || bind == anyIPv6 }

// serviceAddress is an address at which a service is called: an IP with further ones, or a range.
type serviceAddress struct {
	primary string
	more    []string
	// cidrs is set instead of primary when the service is a range of addresses.
	cidrs []string
}

// unspecified tells that the service has no address of its own.
func (a serviceAddress) unspecified() bool { return a.primary == "" && len(a.cidrs) == 0 }

// addresses returns where the proxy calls a service. An external service is reached at each of its addresses by
// itself, the others at the addresses they have in the proxy's cluster (ingestion §2.1, §3.1).
func (u *unitMaker) addresses(s *model.Service) []serviceAddress {
	if s.Registry == model.External {
		return u.externalAddresses(s)
	}
	vips := u.ofFamily(s.ClusterVIPs[u.clusterID])
	if len(vips) == 0 && s.Address != "" && !isWildcard(s.Address) {
		if len(s.ClusterVIPs[u.clusterID]) == 0 && len(s.ClusterVIPs) > 0 && len(u.ofFamily([]string{s.Address})) == 0 {
			return nil // a remote cluster's address that the proxy cannot use
		}
		vips = []string{s.Address}
	}
	if len(vips) == 0 || isWildcard(vips[0]) {
		return []serviceAddress{{}}
	}
	a := serviceAddress{primary: vips[0]}
	if u.dualStack {
		a.more = vips[1:]
	}
	return []serviceAddress{a}
}

func (u *unitMaker) externalAddresses(s *model.Service) []serviceAddress {
	given := s.ClusterVIPs[""]
	if len(given) == 0 && s.Address != "" && !isWildcard(s.Address) {
		given = []string{s.Address}
	}
	if len(given) == 0 {
		return []serviceAddress{{primary: u.allocated(s)}}
	}
	var out []serviceAddress
	for _, a := range given {
		if strings.Contains(a, "/") {
			out = append(out, serviceAddress{cidrs: []string{a}})
		} else {
			out = append(out, serviceAddress{primary: a})
		}
	}
	return out
}

// allocated returns the service's auto-allocated address if the proxy answers its workload's DNS with it.
func (u *unitMaker) allocated(s *model.Service) string {
	if s.AutoV4 == "" && s.AutoV6 == "" || !u.c.DNSCapture() ||
		!u.c.Settings().EnableIPAutoallocate && u.c.Meta("DNS_AUTO_ALLOCATE") != "true" {
		return ""
	}
	switch u.family {
	case view.IPv6:
		return s.AutoV6
	case view.DualStack:
		if s.AutoV4 == "" {
			return s.AutoV6
		}
	}
	return s.AutoV4
}

// ofFamily returns those of the addresses that the proxy can use. Without dual stack these are of one family.
func (u *unitMaker) ofFamily(list []string) []string {
	var out []string
	for _, text := range list {
		a, err := netip.ParseAddr(text)
		if err != nil {
			continue
		}
		four := a.Is4() || a.Is4In6()
		if four && u.family == view.IPv6 || !four && u.family == view.IPv4 {
			continue
		}
		out = append(out, text)
	}
	return out
}

// socket returns an address of a listener.
func socket(bind string, port uint32) *corev3.Address {
	if path, ok := strings.CutPrefix(bind, unixPrefix); ok {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: bind, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}

// setAddresses gives l its addresses.
func setAddresses(l *listenerv3.Listener, binds []string, port uint32) {
	l.Address = socket(binds[0], port)
	for _, b := range binds[1:] {
		l.AdditionalAddresses = append(l.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: socket(b, port)})
	}
}
