package listener

import (
	"net/netip"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

const (
	anyIPv4 = "0.0.0.0"
	anyIPv6 = "::"
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

// serviceAddress is an address at which a service is called: an IP with further ones, or a range. The zero value is a
// service without an address of its own.
type serviceAddress struct {
	primary string
	more    []string
	cidr    string
}

func (a serviceAddress) unspecified() bool { return a.primary == "" && a.cidr == "" }

// addresses returns, until it is asked again, where the proxy calls a service. An external service is reached at each of its addresses by
// itself; the further addresses of another one are listened for together with the first, if the proxy has both families.
func (u *unitMaker) addresses(s *model.Service) []serviceAddress {
	list := u.c.Addresses(s)
	out := u.found[:0]
	defer func() { u.found = out }()
	if len(list) == 0 {
		out = append(out, serviceAddress{})
		return out
	}
	if s.Registry != model.External || len(s.ClusterVIPs[""]) == 0 {
		a := serviceAddress{primary: list[0]}
		if u.dualStack {
			a.more = list[1:]
		}
		out = append(out, a)
		return out
	}
	for _, a := range list {
		if strings.Contains(a, "/") {
			out = append(out, serviceAddress{cidr: a})
		} else {
			out = append(out, serviceAddress{primary: a})
		}
	}
	return out
}

// bindable tells whether Envoy takes an address to listen at.
func bindable(bind string) bool {
	if path, ok := strings.CutPrefix(bind, translate.UnixPrefix); ok {
		return translate.UsablePath(path)
	}
	a, err := netip.ParseAddr(bind)
	return err == nil && a.Zone() == ""
}

// setAddresses gives l its addresses.
func setAddresses(l *listenerv3.Listener, binds []string, port uint32) {
	l.Address = translate.Address(binds[0], port)
	for _, b := range binds[1:] {
		l.AdditionalAddresses = append(l.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: translate.Address(b, port)})
	}
}
