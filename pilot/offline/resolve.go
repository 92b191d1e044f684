package offline

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// unknownAddress stands for the address that DNS gives for a name without one in the mesh: of the range for examples.
const unknownAddress = "192.0.2.1"

// resolve returns the address that a host has for callers in a namespace, and how it was found. A host is an address, or
// a service by any of its names.
func (p *Plane) resolve(host, namespace string) (netip.Addr, string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a, "", nil
	}
	domain := p.settings.Domain
	for _, name := range []string{host + "." + namespace + ".svc." + domain, host + ".svc." + domain, host + "." + domain, host} {
		s := p.serviceOf(name, namespace)
		if s == nil {
			continue
		}
		address := p.addressOf(s)
		if address == "" {
			return netip.MustParseAddr(unknownAddress), fmt.Sprintf("%s (%s) has no address in the mesh; %s stands for what DNS gives", s.Host, s.Object, unknownAddress), nil
		}
		a, err := netip.ParseAddr(address)
		if err != nil {
			pre, perr := netip.ParsePrefix(address)
			if perr != nil {
				return netip.Addr{}, "", fmt.Errorf("the address %q of %s: %w", address, s.Object, err)
			}
			a = pre.Addr()
		}
		return a, fmt.Sprintf("%s is %s, %s", host, a, s.Object), nil
	}
	return netip.Addr{}, "", fmt.Errorf("no service has the host %q for callers in namespace %s; for a host outside of the mesh say which address DNS gives", host, namespace)
}

// serviceOf returns the service of a host: of the caller's namespace first. Wildcards of ServiceEntries count.
func (p *Plane) serviceOf(host, namespace string) *model.Service {
	var found, wide *model.Service
	for _, s := range p.Services() {
		switch {
		case s.Host == host && (found == nil || s.Namespace == namespace):
			found = s
		case strings.HasPrefix(s.Host, "*.") && strings.HasSuffix(host, s.Host[1:]) && (wide == nil || len(s.Host) > len(wide.Host)):
			wide = s
		}
	}
	if found != nil {
		return found
	}
	return wide
}

// addressOf returns the address at which a service is called, empty if it has none: of a headless one an endpoint's.
func (p *Plane) addressOf(s *model.Service) string {
	for _, cluster := range []string{"", p.settings.ClusterID} {
		if vips := s.ClusterVIPs[cluster]; len(vips) > 0 {
			return vips[0]
		}
	}
	if a, err := netip.ParseAddr(s.Address); s.Address != "" && (err != nil || !a.IsUnspecified()) {
		return s.Address
	}
	if s.AutoV4 != "" && p.captures() {
		return s.AutoV4
	}
	if s.Headless() {
		for e := range p.push.AllEndpoints() {
			if e.Service != s.ServiceKey {
				continue
			}
			i := slices.IndexFunc(e.All, func(e *model.Endpoint) bool { return len(e.Addresses) > 0 && e.Health != model.Unhealthy })
			if i >= 0 {
				return e.All[i].Addresses[0]
			}
		}
	}
	return ""
}

// captures tells whether proxies of the mesh answer DNS.
func (p *Plane) captures() bool {
	return p.mesh.Config.GetDefaultConfig().GetProxyMetadata()[metaPrefix+"DNS_CAPTURE"] == "true"
}
