package dns

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// The package's cells.
const (
	kindServices cell.Kind = 130 // nil: the services of a scope
	kindNames    cell.Kind = 131 // model.ServiceKey: the names that a service gives
)

// Define registers the package's cells.
func Define(g *cell.Graph, pc func() *model.PushContext) {
	view.DefineCell(g, pc, kindServices, func(c *view.Context, _ any) any { return services(c) }, func(a, b any) bool {
		x, _ := a.(*serviceList)
		y, _ := b.(*serviceList)
		return x != nil && y != nil && slices.Equal(x.keys, y.keys)
	})
	view.DefineCell(g, pc, kindNames, func(c *view.Context, key model.ServiceKey) any { return namesOf(c, key) }, reflect.DeepEqual)
}

type serviceList struct{ keys []model.ServiceKey }

// services lists what any of the scope's egress listeners carries, each once.
func services(c *view.Context) *serviceList {
	out, seen := &serviceList{}, map[model.ServiceKey]struct{}{}
	for _, l := range c.TransportScopeOf(c.SharedScopeID()).Listeners {
		for _, s := range l.Services {
			if _, has := seen[s.ServiceKey]; has || s.Resolution == model.Alias {
				continue
			}
			seen[s.ServiceKey] = struct{}{}
			out.keys = append(out.keys, s.ServiceKey)
		}
	}
	return out
}

// name is one entry of the table.
type name struct {
	host, short, namespace string
	registry               model.Registry
	ips                    []string
	// foreign is set for names of members that run in another cluster than the proxy.
	foreign bool
}

// names is what one service gives: itself, if it has an address, and the members of a headless one.
type names struct{ list []name }

// clusterSetSuffix ends the hosts of services that several clusters form together. They have no short names.
const clusterSetSuffix = ".clusterset.local"

func namesOf(c *view.Context, key model.ServiceKey) *names {
	s := c.Service(key)
	if s == nil {
		return &names{}
	}
	own := name{host: s.Host, registry: s.Registry}
	if s.Registry == model.Kubernetes && !strings.HasSuffix(s.Host, clusterSetSuffix) {
		own.short, own.namespace = s.Name, s.Namespace
	}
	out := &names{}
	addresses := c.Addresses(s)
	if len(addresses) == 0 && s.Headless() && len(s.Ports) > 0 {
		addresses = out.members(c, s)
	}
	for _, a := range addresses {
		if _, err := netip.ParseAddr(a); err == nil {
			own.ips = append(own.ips, a)
		}
	}
	if len(own.ips) > 0 {
		out.list = append(out.list, own)
	}
	return out
}

// members adds the names of a headless service's members, and returns the addresses of all.
func (n *names) members(c *view.Context, s *model.Service) []string {
	var out []string
	own := map[string]int{} // index in n.list by host
	seen := map[string]struct{}{}
	_, domain, dotted := strings.Cut(s.Host, ".")
	everyCluster := strings.ToLower(c.Settings().Raw["ENABLE_MULTICLUSTER_HEADLESS"]) != "false"
	for _, e := range c.Endpoints(s.ServiceKey).All {
		if len(e.Addresses) == 0 || e.Health != model.Healthy && !s.PublishNotReady {
			continue
		}
		if _, has := seen[e.Addresses[0]]; has || !sameNetwork(c, e) {
			continue
		}
		seen[e.Addresses[0]] = struct{}{}
		foreign := e.Cluster != "" && e.Cluster != c.ClusterID()
		if e.Subdomain != "" && e.Hostname != "" && dotted {
			short := e.Hostname + "." + e.Subdomain
			m := name{
				host: short + "." + domain, short: short, namespace: s.Namespace, registry: s.Registry,
				ips: e.Addresses, foreign: foreign,
			}
			if i, has := own[m.host]; !has {
				own[m.host] = len(n.list)
				n.list = append(n.list, m)
			} else if n.list[i].foreign && !foreign {
				n.list[i] = m
			}
		}
		if everyCluster || !foreign {
			out = append(out, e.Addresses...)
		}
	}
	return out
}

// sameNetwork tells whether the proxy reaches an endpoint without a gateway.
func sameNetwork(c *view.Context, e *model.Endpoint) bool {
	return e.Network == "" || c.Network() == "" || e.Network == c.Network()
}
