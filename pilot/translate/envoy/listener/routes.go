package listener

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

// tcp adds the chains of a TCP or TLS port: those of virtual services, and the service's own where they leave room.
func (b *portBuilder) tcp(d *demand) {
	if strings.HasPrefix(b.binds[0], translate.UnixPrefix) {
		d.cidrs = nil
	}
	service := b.c.Service(d.service)
	var rules []*model.VirtualService
	for _, row := range d.rules {
		ns, name, _ := strings.Cut(row, "/")
		if v := b.c.VirtualService(ns, name); v != nil {
			rules = append(rules, v)
		}
	}
	if d.protocol.IsTLS() {
		b.tlsRoutes(d, service, rules)
		return
	}
	b.tcpRoutes(d, service, rules)
}

// tlsRoutes adds a chain for each match of a TLS route, or the service's own if none matches.
func (b *portBuilder) tlsRoutes(d *demand, service *model.Service, rules []*model.VirtualService) {
	cidrs, handled := d.cidrs, map[string]bool{}
	for _, v := range rules {
		for i, route := range v.Spec.GetTls() {
			for j, m := range route.GetMatch() {
				if !b.applies(d, m.GetGateways(), m.GetSourceLabels(), m.GetPort(), m.GetSourceNamespace()) || len(route.GetRoute()) == 0 {
					continue
				}
				// as the field's control plane has it, subnets of one match hold for those after it too
				if len(m.GetDestinationSubnets()) > 0 {
					cidrs = m.GetDestinationSubnets()
				}
				key := strings.Join(m.GetSniHosts(), ",") + "|" + strings.Join(m.GetDestinationSubnets(), ",")
				if handled[key] {
					continue
				}
				handled[key] = true
				b.chains.add(&chain{
					name: ruleName(v, "tls", i, j), cidrs: cidrs, sni: m.GetSniHosts(), metadata: ruleMetadata(v),
					filters: b.routeFilters(d, v, route.GetRoute()),
				})
			}
		}
	}
	if len(handled) > 0 {
		return
	}
	c := b.own(d, service)
	if d.sni {
		c.sni = b.serverNames(d, service)
	}
	b.chains.add(c)
}

// tcpRoutes adds chains until one takes all that is left.
func (b *portBuilder) tcpRoutes(d *demand, service *model.Service, rules []*model.VirtualService) {
	for _, v := range rules {
		for i, route := range v.Spec.GetTcp() {
			if len(route.GetRoute()) == 0 {
				continue
			}
			terminal, subnets := b.tcpMatches(d, route.GetMatch())
			if terminal {
				b.chains.add(&chain{
					name: ruleName(v, "tcp", i, 0), cidrs: d.cidrs, metadata: ruleMetadata(v),
					filters: b.routeFilters(d, v, route.GetRoute()),
				})
				return
			}
			if len(subnets) > 0 {
				b.chains.add(&chain{
					name: ruleName(v, "tcp", i, 0), cidrs: subnets, filters: b.routeFilters(d, v, route.GetRoute()),
				})
				if slices.Equal(sortedSet(subnets), sortedSet(d.cidrs)) {
					return // the service's own chain would match the same
				}
			}
		}
	}
	b.chains.add(b.own(d, service))
}

// tcpMatches tells whether a route takes everything of the service, or else which subnets.
func (b *portBuilder) tcpMatches(d *demand, matches []*networking.L4MatchAttributes) (terminal bool, subnets []string) {
	if len(matches) == 0 {
		return true, nil
	}
	for _, m := range matches {
		if !b.applies(d, m.GetGateways(), m.GetSourceLabels(), m.GetPort(), m.GetSourceNamespace()) {
			continue
		}
		if len(m.GetDestinationSubnets()) == 0 {
			return true, nil
		}
		subnets = append(subnets, m.GetDestinationSubnets()...)
	}
	return false, subnets
}

// applies tells whether a match is meant for this proxy and port. The proxy is looked at only if the match does.
func (b *portBuilder) applies(d *demand, gateways []string, labels map[string]string, port uint32, namespace string) bool {
	return (len(gateways) == 0 || slices.Contains(gateways, model.MeshGateway)) &&
		(port == 0 || port == d.port) &&
		(namespace == "" || namespace == b.c.ProxyNamespace()) &&
		(len(labels) == 0 || model.LabelsMatch(labels, b.c.Labels()))
}

func ruleMetadata(v *model.VirtualService) *corev3.Metadata {
	return configMetadata("virtual-service", v.Namespace, v.Name)
}

func ruleName(v *model.VirtualService, kind string, route, match int) string {
	return strings.Join([]string{v.Namespace, v.Name, kind, strconv.Itoa(route), strconv.Itoa(match)}, "/")
}

// own returns the chain to the service itself.
func (b *portBuilder) own(d *demand, service *model.Service) *chain {
	name := traffic.Name{Direction: traffic.Outbound, Port: d.target, Host: d.service.Host}.String()
	stat := name
	if pattern := b.c.Mesh().Config.GetOutboundClusterStatName(); pattern != "" && service != nil {
		stat = statName(pattern, service, statPort{number: d.target}, "")
	}
	o := b.connection(d, b.c.DestinationRule(d.service.Host, d.service.Namespace), "")
	o.Cluster, o.StatPrefix = name, stat
	return &chain{name: d.service.Host, cidrs: d.cidrs, filters: b.filters.Connection(o), forwarded: o.Forward != nil}
}

// serverNames returns the service's host and the names that stand for it.
func (b *portBuilder) serverNames(d *demand, service *model.Service) []string {
	out := []string{d.service.Host}
	if service == nil {
		return out
	}
	for _, a := range b.c.Aliases(service.ServiceKey) {
		out = append(out, a.Host)
		out = append(out, alternates(a.Host, b.c.DNSDomain())...)
	}
	return out
}

// alternates returns the shorter names of a host that a client in a DNS domain "<namespace>.svc.<domain>" may use.
func alternates(host, domain string) []string {
	namespace, rest, ok := strings.Cut(domain, ".")
	if !ok || !strings.HasSuffix(host, "."+rest) {
		return nil
	}
	base := strings.TrimSuffix(host, "."+rest) // name.namespace
	name, ns, ok := strings.Cut(base, ".")
	if !ok {
		return nil
	}
	out := []string{base, base + ".svc"}
	if ns == namespace {
		out = append(out, name)
	}
	return out
}

// routeFilters returns the filters of a rule's route. What the first destination's rule says counts for all.
func (b *portBuilder) routeFilters(d *demand, v *model.VirtualService, routes []*networking.RouteDestination) []*listenerv3.Filter {
	first := routes[0].GetDestination()
	var rule *model.DestinationRule
	if s := b.c.ScopedService(first.GetHost()); s != nil {
		rule = b.c.DestinationRule(first.GetHost(), s.Namespace)
	} else {
		rule = b.c.DestinationRule(first.GetHost(), "")
	}
	o := b.connection(d, rule, first.GetSubset())
	if len(routes) == 1 {
		o.Cluster = b.destination(first, d.port)
		o.StatPrefix = o.Cluster
		pattern := b.c.Mesh().Config.GetOutboundClusterStatName()
		if s := b.c.ScopedService(first.GetHost()); pattern != "" && s != nil {
			o.StatPrefix = statName(pattern, s.Service, statPort{number: d.port, name: d.name}, first.GetSubset())
		}
		return b.filters.Connection(o)
	}
	var sum uint64
	for _, r := range routes {
		sum += uint64(max(r.GetWeight(), 0)) //nolint:gosec // not negative
	}
	for _, r := range routes {
		if r.GetWeight() > 0 {
			o.Weighted = append(o.Weighted, filter.WeightedCluster{
				Name: b.destination(r.GetDestination(), d.port), Weight: traffic.Share(uint32(r.GetWeight()), sum),
			})
		}
	}
	o.StatPrefix = v.Name + "." + v.Namespace
	if len(o.Weighted) == 0 {
		o.Cluster = traffic.BlackHole
	}
	return b.filters.Connection(o)
}

// destination returns the cluster of a destination; one that names no port has the listener's, or a service's only one.
func (b *portBuilder) destination(d *networking.Destination, port uint32) string {
	s := b.c.ScopedService(d.GetHost())
	host := d.GetHost()
	switch {
	case d.GetPort() != nil:
		port = d.GetPort().GetNumber()
	case s != nil && len(s.Ports) == 1:
		port = s.Ports[0].Number
	}
	if s != nil && s.Resolution == model.Alias && s.AliasOf != "" {
		host = s.AliasOf
	}
	return traffic.Name{Direction: traffic.Outbound, Port: port, Subset: d.GetSubset(), Host: host}.String()
}

// connection returns what a destination rule says about plain connections: its top level alone counts.
func (b *portBuilder) connection(d *demand, rule *model.DestinationRule, subset string) filter.TCP {
	o := filter.TCP{Direction: filter.Outbound, Port: b.unit.port, Protocol: d.protocol}
	if d.forward && d.protocol == model.TLS {
		o.Forward, o.ForwardPort = b.cache(d), d.target
	}
	if rule == nil {
		return o
	}
	policy := rule.Spec.GetTrafficPolicy()
	o.IdleTimeout = traffic.AtLeast(policy.GetConnectionPool().GetTcp().GetIdleTimeout(), 0)
	o.MaxDuration = traffic.AtLeast(policy.GetConnectionPool().GetTcp().GetMaxConnectionDuration(), time.Millisecond)
	o.HashSourceIP = policy.GetLoadBalancer().GetConsistentHash().GetUseSourceIp()
	tunnel := policy.GetTunnel()
	if s := rule.Subset(subset); s != nil {
		if lb := s.GetTrafficPolicy().GetLoadBalancer(); lb != nil {
			o.HashSourceIP = lb.GetConsistentHash().GetUseSourceIp()
		}
		if t := s.GetTrafficPolicy().GetTunnel(); t != nil {
			tunnel = t
		}
	}
	if tunnel != nil {
		o.Tunnel = &tcpv3.TcpProxy_TunnelingConfig{
			Hostname: format.Header(tunnel.GetTargetHost() + ":" + strconv.FormatUint(uint64(tunnel.GetTargetPort()), 10)),
			UsePost:  strings.EqualFold(tunnel.GetProtocol(), "POST"),
		}
	}
	return o
}
