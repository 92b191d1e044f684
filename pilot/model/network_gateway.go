package model

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"

	mesh "istio.io/api/mesh/v1alpha1"
)

// The ports of gateways between networks.
const (
	defaultGatewayPort = 15443
	gatewayHBONEPort   = 15008
	labelGatewayPort   = "networking.istio.io/gatewayPort"
)

// NetworkGateway is a place where a network is entered from the others.
type NetworkGateway struct {
	Network string
	// Cluster is the cluster that the gateway belongs to; gateways of meshNetworks have none.
	Cluster string
	Address string // an IP, or a name that is not resolved
	// Port takes connections with mutual TLS by their SNI, HBONEPort takes tunnels; 0 means that there is no such port.
	Port, HBONEPort uint32
	// Locality is "region/zone/subzone", or empty.
	Locality string
}

// NetworkGateways returns the gateways of all networks, by network, address and port. The slice is shared: it must not
// be modified. As soon as there is one, endpoints of other networks are reached by gateways.
func (r *Reader) NetworkGateways() []NetworkGateway {
	r.read(TableGateways, "")
	return r.pc.gateways
}

// deriveNetworkGateways lists the gateways anew if a service that is or was one changed, or the mesh configuration.
// changed are the services that were looked at.
func (b *Builder) deriveNetworkGateways(c *commit, changed map[string]ServiceKey) {
	named := map[string]bool{}
	for _, n := range c.next.mesh.Networks.GetNetworks() {
		for _, gw := range n.GetGateways() {
			named[gw.GetRegistryServiceName()] = true
		}
	}
	again := c.mesh || c.prev.Generation == 0
	for row, k := range changed {
		s, _ := c.next.services.Get(row)
		again = again || named[k.Host] || b.gatewayOwners[row] || isNetworkGateway(s)
	}
	if !again {
		return
	}
	var list []NetworkGateway
	b.gatewayOwners = map[string]bool{}
	for row, s := range c.next.services.All() {
		if isNetworkGateway(s) {
			b.gatewayOwners[row] = true
			list = append(list, serviceGateways(s, c.next.settings.ClusterID)...)
		}
	}
	list = append(list, meshGateways(c.next)...)
	slices.SortFunc(list, compareGateways)
	list = slices.Compact(list)
	if !slices.Equal(list, c.prev.gateways) {
		c.next.gateways = list
		c.touch(TableGateways, "")
	}
}

// isNetworkGateway tells whether a service stands for the entrance of a network.
func isNetworkGateway(s *Service) bool {
	return s != nil && s.Registry == Kubernetes && s.Labels[labelNetwork] != ""
}

func compareGateways(a, b NetworkGateway) int {
	return cmp.Or(
		cmp.Compare(a.Network, b.Network), cmp.Compare(a.Address, b.Address), cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.HBONEPort, b.HBONEPort), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Locality, b.Locality),
	)
}

// serviceGateways returns the gateways at the external addresses of a service that stands for its network.
func serviceGateways(s *Service, cluster string) []NetworkGateway {
	g := NetworkGateway{Network: s.Labels[labelNetwork], Cluster: cluster}
	port := uint32(defaultGatewayPort)
	if n, err := strconv.ParseUint(s.Labels[labelGatewayPort], 10, 16); err == nil && n != 0 {
		port = uint32(n)
	}
	if s.PortByNumber(port) != nil {
		g.Port = port
	}
	if s.PortByNumber(gatewayHBONEPort) != nil {
		g.HBONEPort = gatewayHBONEPort
	}
	if g.Port == 0 && g.HBONEPort == 0 {
		return nil
	}
	var out []NetworkGateway
	for _, a := range s.ExternalAddresses {
		g.Address = a
		out = append(out, g)
	}
	return out
}

// meshGateways returns the gateways that meshNetworks names, by address or by a service of a cluster of the network.
func meshGateways(pc *PushContext) []NetworkGateway {
	var out []NetworkGateway
	networks := pc.mesh.Networks.GetNetworks()
	for _, id := range slices.Sorted(maps.Keys(networks)) {
		for _, gw := range networks[id].GetGateways() {
			g := NetworkGateway{Network: id, Port: gw.GetPort(), Locality: gw.GetLocality()}
			if gw.GetAddress() != "" {
				g.Address = gw.GetAddress()
				out = append(out, g)
				continue
			}
			if !networkHasCluster(networks[id], pc.settings.ClusterID) {
				continue
			}
			namespaces, _ := pc.hosts.Get(gw.GetRegistryServiceName())
			for _, ns := range namespaces {
				s, _ := pc.services.Get(ServiceKey{gw.GetRegistryServiceName(), ns}.String())
				if s == nil || s.Registry != Kubernetes {
					continue
				}
				for _, a := range s.ExternalAddresses {
					g.Address = a
					out = append(out, g)
				}
			}
		}
	}
	return out
}

func networkHasCluster(n *mesh.Network, cluster string) bool {
	for _, e := range n.GetEndpoints() {
		if e.GetFromRegistry() == cluster && cluster != "" {
			return true
		}
	}
	return false
}

// Resolved tells whether the gateway's address is an IP.
func (g NetworkGateway) Resolved() bool {
	_, err := netip.ParseAddr(g.Address)
	return err == nil
}
