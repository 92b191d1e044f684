package route

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// listingID names a listening port of a scope; where all ports are carried (0), the name of the route configuration.
type listingID struct {
	scope view.ScopeID
	port  uint32
	name  string
}

// listing is what one listening port of a scope carries. Only what stands in it makes virtual hosts, so that it stays
// the same, and all above it, when a service without that port changes.
type listing struct {
	scope    *view.Scope
	listener *view.EgressListener // nil if no egress listener serves the port
	// port is the listening port, 0 if the listener carries all ports.
	port     uint32
	services []*view.ScopedService
	byHost   map[string]*view.ScopedService
	// aliases are the other hosts of a host, in service order; aliasOf says what those stand for.
	aliases map[string][]string
	aliasOf map[string]string
	// ruled tells whether there is any VirtualService at all.
	ruled bool
}

func listingFor(c *view.Context, n configName) *listing {
	id := listingID{scope: c.SharedScopeID(), port: n.port}
	if n.port == 0 {
		id.name = n.text
	}
	l, _ := c.Cell(cell.ID{Kind: kindListing, Arg: id}).(*listing)
	return l
}

func newListing(c *view.Context, id listingID) *listing {
	l := &listing{scope: c.ScopeOf(id.scope), port: id.port}
	l.listener = egressListener(l.scope, id)
	if l.listener == nil {
		return l
	}
	if strings.EqualFold(l.listener.Spec.GetPort().GetProtocol(), string(model.HTTPProxy)) {
		l.port = 0
	}
	for _, s := range l.listener.Services {
		if l.port == 0 || portOf(s, l.port) != nil {
			l.services = append(l.services, s)
		}
	}
	l.byHost = make(map[string]*view.ScopedService, len(l.services))
	for _, s := range l.services {
		l.byHost[s.Host] = s
	}
	l.ruled = len(l.listener.VirtualServices) > 0
	l.findAliases(c)
	return l
}

// egressListener returns the listener that serves a port, or the one that a name without port is bound to.
func egressListener(s *view.Scope, id listingID) *view.EgressListener {
	if id.port != 0 {
		return s.ListenerForPort(id.port)
	}
	for _, l := range s.Listeners {
		if l.Spec.GetPort() == nil || l.Spec.GetPort().GetNumber() == 0 && l.Spec.GetBind() == id.name {
			return l
		}
	}
	return nil
}

// findAliases collects the aliases that the proxy's namespace sees, imported or not: they are names, and have no
// configuration of their own. A chain of aliases stands for the service at its end.
func (l *listing) findAliases(c *view.Context) {
	exported, public := c.VisibleServices(l.scope.Namespace)
	var hosts []string
	for _, list := range [2][]*model.Service{exported, public} {
		for _, s := range list {
			if s.Resolution == model.Alias {
				if l.aliasOf == nil {
					l.aliasOf = map[string]string{}
				}
				if _, has := l.aliasOf[s.Host]; !has {
					hosts = append(hosts, s.Host)
				}
				l.aliasOf[s.Host] = s.AliasOf
			}
		}
	}
	for _, host := range hosts {
		target := host
		for range len(hosts) {
			next, ok := l.aliasOf[target]
			if !ok {
				break
			}
			target = next
		}
		if _, loop := l.aliasOf[target]; loop {
			continue
		}
		if l.aliases == nil {
			l.aliases = map[string][]string{}
		}
		l.aliases[target] = append(l.aliases[target], host)
	}
}

func portOf(s *view.ScopedService, number uint32) *model.Port {
	for _, p := range s.Ports {
		if p.Number == number {
			return p
		}
	}
	return nil
}

// routed tells whether a port's requests are routed by host.
func routed(p *model.Port) bool { return p.Protocol.IsHTTP() || p.Protocol.IsAuto() }

// rules returns the VirtualServices that name a host or cover it, of the most specific host first.
func (l *listing) rules(host string) []*model.VirtualService {
	if !l.ruled {
		return nil
	}
	return l.scope.VirtualServicesFor(l.listener, host)
}

// sameListing is the cell.Equal of listings.
func sameListing(a, b any) bool {
	x, _ := a.(*listing)
	y, _ := b.(*listing)
	if x == nil || y == nil {
		return x == y
	}
	if (x.listener == nil) != (y.listener == nil) || x.port != y.port || x.scope.Namespace != y.scope.Namespace ||
		!samePolicy(x.scope.OutboundPolicy, y.scope.OutboundPolicy) {
		return false
	}
	if x.listener == nil {
		return true
	}
	return slices.EqualFunc(x.services, y.services, func(s, t *view.ScopedService) bool {
		return s == t || s.Service == t.Service && slices.Equal(s.Ports, t.Ports)
	}) && slices.Equal(x.listener.VirtualServices, y.listener.VirtualServices) && sameAliases(x.aliasOf, y.aliasOf)
}

func samePolicy(a, b *networking.OutboundTrafficPolicy) bool { return a == b || proto.Equal(a, b) }

func sameAliases(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}
