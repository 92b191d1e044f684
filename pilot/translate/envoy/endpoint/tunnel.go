package endpoint

import (
	"net"
	"slices"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

const (
	keyLocal      = "local"
	keyTunnel     = "tunnel"
	managedLabel  = "gateway.istio.io/managed"
	managedByMesh = "istio.io-mesh-controller"
)

// tunnelled tells whether the proxy reaches e through an HBONE tunnel (translation-l4 §3.3). Peers that speak mutual TLS
// of the mesh are left to that, unless the tunnel is preferred.
func (b *builder) tunnelled(e *model.Endpoint) bool {
	if !b.sendsHBONE || !e.HBONE && e.Labels[managedLabel] != managedByMesh || strings.HasPrefix(e.Addresses[0], translate.UnixPrefix) {
		return false
	}
	return e.TLSMode != modeIstio || b.c.Settings().Raw["PILOT_PREFER_SENDING_HBONE"] == "true"
}

// tunnel makes m, which stands for e, lead into the tunnel to it.
func tunnel(m *endpointv3.LbEndpoint, e *model.Endpoint) {
	local := net.JoinHostPort(e.Addresses[0], strconv.FormatUint(uint64(e.Port), 10))
	m.HostIdentifier = &endpointv3.LbEndpoint_Endpoint{Endpoint: &endpointv3.Endpoint{
		Address: &corev3.Address{Address: &corev3.Address_EnvoyInternalAddress{EnvoyInternalAddress: &corev3.EnvoyInternalAddress{
			AddressNameSpecifier: &corev3.EnvoyInternalAddress_ServerListenerName{ServerListenerName: traffic.ConnectOriginate},
			EndpointId:           local,
		}}},
	}}
	fields := m.GetMetadata().GetFilterMetadata()
	fields[metaMatch] = text(keyTunnel, "http")
	fields[traffic.OriginalDst] = text(keyLocal, local)
}

// tunnelsFirst puts the members that are reached through tunnels before the others.
func (g *group) tunnelsFirst() {
	var members [2][]*endpointv3.LbEndpoint
	var sources [2][]*model.Endpoint
	for i, m := range g.members {
		half := 1
		if m.GetEndpoint().GetAddress().GetEnvoyInternalAddress() != nil {
			half = 0
		}
		members[half], sources[half] = append(members[half], m), append(sources[half], g.sources[i])
	}
	g.members, g.sources = slices.Concat(members[:]...), slices.Concat(sources[:]...)
}
