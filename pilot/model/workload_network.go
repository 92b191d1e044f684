package model

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	mesh "istio.io/api/mesh/v1alpha1"
)

const labelNetwork = "topology.istio.io/network"

// networkTable answers which network meshNetworks puts an address of the own cluster in.
type networkTable struct {
	cluster string // network of the whole cluster, or empty
	ranges  []networkRange
}

type networkRange struct {
	prefix  netip.Prefix
	network string
}

func newNetworkTable(n *mesh.MeshNetworks, cluster string) *networkTable {
	t := &networkTable{}
	for _, id := range slices.Sorted(maps.Keys(n.GetNetworks())) {
		for _, e := range n.GetNetworks()[id].GetEndpoints() {
			if r := e.GetFromRegistry(); r != "" && r == cluster && t.cluster == "" {
				t.cluster = id
			}
			if p, err := netip.ParsePrefix(e.GetFromCidr()); err == nil {
				t.ranges = append(t.ranges, networkRange{p.Masked(), id})
			}
		}
	}
	// The most general range that holds an address wins.
	slices.SortStableFunc(t.ranges, func(a, b networkRange) int { return cmp.Compare(a.prefix.Bits(), b.prefix.Bits()) })
	return t
}

func (t *networkTable) of(address string) string {
	if t.cluster != "" || len(t.ranges) == 0 {
		return t.cluster
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	for _, r := range t.ranges {
		if r.prefix.Contains(ip) {
			return r.network
		}
	}
	return ""
}

// network returns the network of a workload with the labels at the address: the label's, the system namespace's, that
// of meshNetworks.
func (w *discoveryWork) network(labels map[string]string, address string) string {
	if n := labels[labelNetwork]; n != "" {
		return n
	}
	if w.systemNetwork == nil {
		n := w.namespace(w.next.settings.SystemNamespace).labels[labelNetwork]
		w.systemNetwork = &n
	}
	if *w.systemNetwork != "" {
		return *w.systemNetwork
	}
	return w.networks.of(address)
}
