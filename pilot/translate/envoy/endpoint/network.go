package endpoint

import (
	"cmp"
	"net/netip"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

const labelCluster = "topology.istio.io/cluster"

// networks knows how endpoints of other networks are reached (translation-l4 §3.5). The zero value is a mesh of one
// network.
type networks struct {
	gateways []model.NetworkGateway
	// scale multiplies all weights, so that a weight can be divided by the number of gateways of any network.
	scale uint32
}

func newNetworks(gateways []model.NetworkGateway) networks {
	n := networks{gateways: gateways, scale: 1}
	counts := map[[2]string]uint32{}
	for _, g := range gateways {
		counts[[2]string{g.Network}]++
		if g.Cluster != "" {
			counts[[2]string{g.Network, g.Cluster}]++
		}
	}
	for _, count := range counts {
		n.scale = lcm(n.scale, count)
	}
	return n
}

func lcm(a, b uint32) uint32 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return saturate(uint64(a) / uint64(x) * uint64(b))
}

// of returns the gateways to an endpoint's network that a proxy of typ can use: those of its cluster, else all.
func (n *networks) of(e *model.Endpoint, typ func() view.Type) []model.NetworkGateway {
	var own, all []model.NetworkGateway
	for _, g := range n.gateways {
		if g.Network != e.Network || g.Port == 0 && typ() == view.Sidecar {
			continue
		}
		all = append(all, g)
		if g.Cluster == e.Cluster && g.Cluster != "" {
			own = append(own, g)
		}
	}
	if len(own) > 0 {
		return own
	}
	return all
}

// remote returns the gateways by which the proxy reaches e, nil if it calls e itself.
func (b *builder) remote(e *model.Endpoint) []model.NetworkGateway {
	if len(b.networks.gateways) == 0 || e.Network == "" || e.Network == b.c.Network() {
		return nil
	}
	return b.networks.of(e, b.c.Type)
}

// divert spreads e's weight over the gateways. An endpoint that takes no mutual TLS, or is behind gateways of another
// family only, cannot be reached.
func (b *builder) divert(g *group, e *model.Endpoint, gateways []model.NetworkGateway) {
	if !b.mtls.enabled(e) || e.TLSMode == modeDisabled {
		return
	}
	family := b.c.Family()
	usable := slices.DeleteFunc(slices.Clone(gateways), func(gw model.NetworkGateway) bool { return !b.q.DNS && !reaches(family, gw.Address) })
	for _, gw := range usable {
		weight := uint64(max(e.Weight, 1)) * uint64(b.networks.scale) / uint64(len(usable))
		i := slices.IndexFunc(g.gateways, func(w weighedGateway) bool { return w.NetworkGateway == gw })
		if i < 0 {
			i = len(g.gateways)
			g.gateways = append(g.gateways, weighedGateway{NetworkGateway: gw})
		}
		g.gateways[i].weight = saturate(uint64(g.gateways[i].weight) + weight)
	}
}

// weighedGateway is a gateway with the weight of what is behind it.
type weighedGateway struct {
	model.NetworkGateway
	weight uint32
}

func reaches(f view.Family, address string) bool {
	a, err := netip.ParseAddr(address)
	switch {
	case err != nil:
		return false
	case f == view.IPv4:
		return a.Is4() || a.Is4In6()
	case f == view.IPv6:
		return a.Is6() && !a.Is4In6()
	}
	return true
}

// putGateways appends the group's gateways to its own endpoints.
func (g *group) putGateways() {
	slices.SortFunc(g.gateways, func(x, y weighedGateway) int {
		return cmp.Or(cmp.Compare(x.Address, y.Address), cmp.Compare(x.Port, y.Port))
	})
	for _, gw := range g.gateways {
		g.put(&model.Endpoint{
			Network: gw.Network, Cluster: gw.Cluster,
			Labels: map[string]string{traffic.LabelNetwork: gw.Network, labelCluster: gw.Cluster},
		}, &endpointv3.LbEndpoint{
			HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
				Endpoint: &endpointv3.Endpoint{Address: translate.Address(gw.Address, gw.Port)},
			},
			LoadBalancingWeight: wrapperspb.UInt32(max(gw.weight, 1)),
			Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
				metaMatch: text(keyTLSMode, modeIstio), metaIstio: text(keyWorkload, ";;;;"+gw.Cluster),
			}},
		})
	}
}
