package traffic

import (
	"strconv"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// The clusters with fixed names.
const (
	BlackHole          = "BlackHoleCluster"
	Passthrough        = "PassthroughCluster"
	InboundPassthrough = "InboundPassthroughCluster"
	DynamicDNS         = "AllowAnyDynamicDNSCluster"
)

// The names of HBONE tunnels: each is a listener's, and that of the cluster which leads there or carries the tunnel.
const (
	ConnectOriginate = "connect_originate" // puts connections into a tunnel
	MainInternal     = "main_internal"     // takes what comes out of one
)

// OriginalDst is the metadata by which the endpoint of a tunnelled connection is passed on.
const OriginalDst = "envoy.filters.listener.original_dst"

// Direction is the first field of a cluster's name.
type Direction string

// The directions. InboundVIP clusters are a waypoint's, one a service port.
const (
	Outbound   Direction = "outbound"
	Inbound    Direction = "inbound"
	InboundVIP Direction = "inbound-vip"
)

// Name is the parsed name of a service's cluster.
type Name struct {
	Direction Direction
	Port      uint32
	Subset    string // may be empty
	Host      string // empty for inbound clusters
	// DNAT is set for clusters that gateways choose by SNI, whose fields are separated by "_.".
	DNAT bool
}

// String returns the name as proxies know it.
func (n Name) String() string {
	if n.DNAT {
		return string(n.Direction) + "_." + strconv.FormatUint(uint64(n.Port), 10) + "_." + n.Subset + "_." + n.Host
	}
	return string(n.Direction) + "|" + strconv.FormatUint(uint64(n.Port), 10) + "|" + n.Subset + "|" + n.Host
}

// InboundName returns the name of the cluster for a port of the proxy's own workload.
func InboundName(port uint32) string { return Name{Direction: Inbound, Port: port}.String() }

// ParseName reads a service cluster's name. It reports false for fixed names and all that has not four fields.
func ParseName(name string) (Name, bool) {
	sep := "|"
	dnat := strings.HasPrefix(name, "outbound_.") || strings.HasPrefix(name, "inbound_.")
	if dnat {
		sep = "_."
	}
	dir, rest, ok1 := strings.Cut(name, sep)
	port, rest, ok2 := strings.Cut(rest, sep)
	subset, host, ok3 := strings.Cut(rest, sep)
	n, err := strconv.ParseUint(port, 10, 16)
	if !ok1 || !ok2 || !ok3 || err != nil || strings.Contains(host, sep) {
		return Name{}, false
	}
	switch Direction(dir) {
	case Outbound, Inbound, InboundVIP:
	default:
		return Name{}, false
	}
	return Name{Direction(dir), uint32(n), subset, host, dnat}, true
}

// StatName returns a cluster's name in statistics, without the closing ";": its name, or what pattern makes of the
// service's properties. Inbound clusters give the target port, others 0.
func StatName(pattern, name string, s *model.Service, p *model.Port, subset string, targetPort uint32) string {
	if pattern == "" {
		return name
	}
	short, qualified := s.Host, s.Host
	if s.Registry == model.Kubernetes {
		short, qualified = s.Name, s.Name+"."+s.Namespace
	}
	return strings.NewReplacer(
		"%SERVICE%", qualified, "%SERVICE_NAME%", short, "%SERVICE_FQDN%", s.Host,
		"%SERVICE_PORT%", strconv.FormatUint(uint64(p.Number), 10), "%SERVICE_PORT_NAME%", p.Name,
		"%TARGET_PORT%", strconv.FormatUint(uint64(targetPort), 10), "%SUBSET_NAME%", subset,
	).Replace(pattern)
}
