package endpoint

import (
	"net"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

const (
	// connectOriginate is the internal listener that puts connections into a tunnel.
	connectOriginate = "connect_originate"
	metaOriginalDst  = "envoy.filters.listener.original_dst"
	keyLocal         = "local"
	keyTunnel        = "tunnel"
	managedLabel     = "gateway.istio.io/managed"
	managedByMesh    = "istio.io-mesh-controller"
)

// tunnelled tells whether the proxy reaches e through an HBONE tunnel (translation-l4 §3.3). Peers that speak mutual TLS
// of the mesh are left to that, unless the tunnel is preferred.
func (b *builder) tunnelled(e *model.Endpoint) bool {
	if !b.sendsHBONE || !e.HBONE && e.Labels[managedLabel] != managedByMesh || strings.HasPrefix(e.Addresses[0], udsPrefix) {
		return false
	}
	return e.TLSMode != modeIstio || b.c.Settings().Raw["PILOT_PREFER_SENDING_HBONE"] == "true"
}

// tunnel makes m, which stands for e, lead into the tunnel to it.
func tunnel(m *endpointv3.LbEndpoint, e *model.Endpoint) {
	local := net.JoinHostPort(e.Addresses[0], strconv.FormatUint(uint64(e.Port), 10))
	m.HostIdentifier = &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
		Address: &corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: &corev3.EnvoyInternalAddress{
			AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{ServerListenerName: connectOriginate},
			EndpointId:           local,
		}}},
	}}
	fields := m.GetMetadata().GetFilterMetadata()
	fields[metaMatch] = text(keyTunnel, "http")
	fields[metaOriginalDst] = &structpb.Struct{Fields: map[string]*structpb.Value{keyLocal: structpb.NewStringValue(local)}}
}

// tunnelsFirst puts the members that are reached through tunnels before the others.
func (g *group) tunnelsFirst() {
	is := func(m *endpointv3.LbEndpoint) bool {
		return m.GetEndpoint().GetAddress().GetEnvoyInternalAddress() != nil
	}
	if len(g.members) != len(g.sources) || slices.IsSortedFunc(g.members, func(a, b *endpointv3.LbEndpoint) int { return later(is(a)) - later(is(b)) }) {
		return
	}
	members, sources := make([]*endpointv3.LbEndpoint, 0, len(g.members)), make([]*model.Endpoint, 0, len(g.sources))
	for _, want := range [2]bool{true, false} {
		for i, m := range g.members {
			if is(m) == want {
				members, sources = append(members, m), append(sources, g.sources[i])
			}
		}
	}
	g.members, g.sources = members, sources
}

func later(first bool) int {
	if first {
		return 0
	}
	return 1
}
