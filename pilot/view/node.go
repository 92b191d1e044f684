package view

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// Agentgateway is the node type of agentgateway proxies, for which there are no resources yet.
const Agentgateway Type = "agentgateway"

// unknownVersion is each part of a version that is not given: newer than all.
const unknownVersion = 65535

// NodeDefaults is what the reading of nodes depends on beside the node.
type NodeDefaults struct {
	// ClusterAliases maps cluster ids that proxies state to the real ones.
	ClusterAliases map[string]string
	// Ambient admits ztunnels.
	Ambient bool
}

// ParseNode reads the node of a first request. Its errors are gRPC statuses with code InvalidArgument, or
// FailedPrecondition for a ztunnel that is not admitted.
func ParseNode(n *corev3.Node, d NodeDefaults) (*Proxy, error) {
	if n.GetId() == "" {
		return nil, status.Error(codes.InvalidArgument, "missing node information")
	}
	p, err := parseNode(n, d)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, fmt.Sprintf("node %.200q: %v", n.GetId(), err))
	}
	if p.Type == Ztunnel && !d.Ambient {
		return nil, status.Error(codes.FailedPrecondition, "ztunnel requires ambient mode, which is off (PILOT_ENABLE_AMBIENT)")
	}
	return p, nil
}

func parseNode(n *corev3.Node, d NodeDefaults) (*Proxy, error) {
	parts := strings.Split(n.GetId(), "~")
	if len(parts) != 4 {
		return nil, fmt.Errorf("the id has %d parts separated by ~, want type~ip~id~domain", len(parts))
	}
	t := Type(parts[0])
	switch t {
	case Sidecar, Router, Waypoint, Ztunnel, Agentgateway:
	default:
		return nil, fmt.Errorf("invalid node type %.50q (want sidecar, router, waypoint, ztunnel or agentgateway)", parts[0])
	}
	m := metadata{fields: n.GetMetadata().GetFields()}
	p := &Proxy{
		ID: parts[2], NodeID: n.GetId(), Type: t, DNSDomain: parts[3],
		IPs:            addresses(m.list("INSTANCE_IPS"), parts[1]),
		Namespace:      m.str("NAMESPACE"),
		ClusterID:      m.str("CLUSTER_ID"),
		Network:        m.str("NETWORK"),
		NetworkView:    m.list("REQUESTED_NETWORK_VIEW"),
		NodeName:       m.str("NODE_NAME"),
		ServiceAccount: m.str("SERVICE_ACCOUNT"),
		Labels:         m.strings("LABELS"),
		StaticLabels:   m.strings("STATIC_LABELS"),
		Locality:       localityOf(n.GetLocality()),
		Version:        ParseVersion(m.str("ISTIO_VERSION")),
		Generator:      m.str("GENERATOR"),
		Profile:        profileOf(n.GetExtensions()),
		Links:          linksOf(n.GetExtensions()),
		PodPorts:       m.podPorts(),
		Metadata:       n.GetMetadata(),
		UserAgent:      userAgent(n),
	}
	m.known()
	if m.err != nil {
		return nil, m.err
	}
	if len(p.IPs) == 0 {
		return nil, fmt.Errorf("no valid IP address in the id (%.50q) or INSTANCE_IPS", parts[1])
	}
	if p.Namespace == "" {
		if first, _, more := strings.Cut(parts[3], "."); more {
			p.Namespace = first
		}
	}
	if real, ok := d.ClusterAliases[p.ClusterID]; ok {
		p.ClusterID = real
	}
	return p, nil
}

// addresses returns the instance's addresses if there are some and all are valid, else the id's.
func addresses(instance []string, id string) []string {
	out := make([]string, 0, len(instance))
	for _, ip := range instance {
		if _, err := netip.ParseAddr(ip); err != nil {
			out = nil
			break
		}
		out = append(out, ip)
	}
	if len(out) > 0 {
		return out
	}
	if _, err := netip.ParseAddr(id); err != nil {
		return nil
	}
	return []string{id}
}

func localityOf(l *corev3.Locality) string {
	out := l.GetRegion()
	if l.GetZone() != "" || l.GetSubZone() != "" {
		out += "/" + l.GetZone()
	}
	if l.GetSubZone() != "" {
		out += "/" + l.GetSubZone()
	}
	return out
}

// profileOf tells a stock Envoy, which lists what it links and has nothing of Istio's, from Istio's proxy. Clients that
// list nothing are old or minimal, and count as Istio's.
func profileOf(extensions []*corev3.Extension) Profile {
	for _, e := range extensions {
		if strings.Contains(e.GetName(), "istio.") || strings.HasPrefix(e.GetName(), "istio_") {
			return IstioProfile
		}
	}
	if len(extensions) > 0 {
		return StockProfile
	}
	return IstioProfile
}

func userAgent(n *corev3.Node) string {
	name := n.GetUserAgentName()
	if v := n.GetUserAgentVersion(); v != "" {
		return name + "/" + v
	}
	if v := n.GetUserAgentBuildVersion().GetVersion(); v != nil {
		return fmt.Sprintf("%s/%d.%d.%d", name, v.GetMajorNumber(), v.GetMinorNumber(), v.GetPatch())
	}
	return name
}

var versionPattern = regexp.MustCompile(`^([1-9]+)\.([0-9]+)(?:\.([0-9]+))?`)

// ParseVersion reads an Istio version such as "1.32.0" or "release-1.32-dev". What is not given is 65535.
func ParseVersion(s string) [3]int {
	m := versionPattern.FindStringSubmatch(strings.TrimPrefix(s, "release-"))
	if m == nil {
		return [3]int{unknownVersion, unknownVersion, unknownVersion}
	}
	v := [3]int{unknownVersion, unknownVersion, unknownVersion}
	for i, part := range m[1:] {
		if part == "" {
			continue
		}
		n, err := strconv.Atoi(part)
		if err != nil { // out of range
			return [3]int{unknownVersion, unknownVersion, unknownVersion}
		}
		v[i] = n
	}
	return v
}

// metadata reads known fields of node metadata and remembers the first that has a wrong type. Istio's agent writes
// booleans and lists as strings; real ones are taken too.
type metadata struct {
	fields map[string]*structpb.Value
	err    error
}

func (m *metadata) wrong(key, want string) {
	if m.err == nil {
		m.err = fmt.Errorf("metadata %s: want %s, not %s", key, want, kindOf(m.fields[key]))
	}
}

func kindOf(v *structpb.Value) string {
	switch v.GetKind().(type) {
	case *structpb.Value_BoolValue:
		return "a boolean"
	case *structpb.Value_ListValue:
		return "a list"
	case *structpb.Value_NumberValue:
		return "a number"
	case *structpb.Value_StringValue:
		return "a string of another form"
	case *structpb.Value_StructValue:
		return "an object"
	default:
		return "null"
	}
}

// absent tells whether the field is not given or null.
func (m *metadata) absent(key string) bool {
	v, ok := m.fields[key]
	if !ok {
		return true
	}
	_, null := v.GetKind().(*structpb.Value_NullValue)
	return null || v.GetKind() == nil
}

func (m *metadata) str(key string) string {
	if m.absent(key) {
		return ""
	}
	s, ok := m.fields[key].GetKind().(*structpb.Value_StringValue)
	if !ok {
		m.wrong(key, "a string")
		return ""
	}
	return s.StringValue
}

func (m *metadata) list(key string) []string {
	if m.absent(key) {
		return nil
	}
	if l, ok := m.fields[key].GetKind().(*structpb.Value_ListValue); ok {
		var out []string
		for _, v := range l.ListValue.GetValues() {
			s, ok := v.GetKind().(*structpb.Value_StringValue)
			if !ok {
				m.wrong(key, "a comma-separated list")
				return nil
			}
			out = append(out, s.StringValue)
		}
		return out
	}
	s := m.str(key)
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func (m *metadata) boolean(key string) {
	if m.absent(key) {
		return
	}
	if _, ok := m.fields[key].GetKind().(*structpb.Value_BoolValue); ok {
		return
	}
	if s := m.str(key); s != "" {
		if _, err := strconv.ParseBool(s); err != nil {
			m.wrong(key, `"true" or "false"`)
		}
	}
}

func (m *metadata) strings(key string) map[string]string {
	if m.absent(key) {
		return nil
	}
	o, ok := m.fields[key].GetKind().(*structpb.Value_StructValue)
	if !ok {
		m.wrong(key, "an object of strings")
		return nil
	}
	out := make(map[string]string, len(o.StructValue.GetFields()))
	for k, v := range o.StructValue.GetFields() {
		s, ok := v.GetKind().(*structpb.Value_StringValue)
		if !ok {
			m.wrong(key, "an object of strings")
			return nil
		}
		out[k] = s.StringValue
	}
	return out
}

// podPorts reads POD_PORTS: JSON in a string, or the list itself.
func (m *metadata) podPorts() map[string]uint32 {
	const key = "POD_PORTS"
	if m.absent(key) {
		return nil
	}
	var ports []struct {
		Name          string `json:"name"`
		ContainerPort uint32 `json:"containerPort"`
		Protocol      string `json:"protocol"`
	}
	text := metaString(&structpb.Struct{Fields: m.fields}, key)
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &ports); err != nil {
		m.wrong(key, "a JSON list of ports")
		return nil
	}
	out := make(map[string]uint32, len(ports))
	for _, p := range ports {
		if p.Name == "" {
			continue
		}
		if p.Protocol == "" {
			p.Protocol = "TCP"
		}
		out[p.Name+"/"+p.Protocol] = p.ContainerPort
	}
	return out
}

// known checks the types of the known fields that generators read themselves.
func (m *metadata) known() {
	for _, k := range [...]string{
		"DNS_CAPTURE", "DNS_AUTO_ALLOCATE", "UNPRIVILEGED_POD", "ENABLE_HBONE", "DISABLE_HBONE_SEND", "ENABLE_SELF_DISCOVERY",
		"INBOUND_LISTENER_EXACT_BALANCE", "OUTBOUND_LISTENER_EXACT_BALANCE",
	} {
		m.boolean(k)
	}
	for _, k := range [...]string{"INTERCEPTION_MODE", "WORKLOAD_NAME", "MESH_ID", "HTTP10", "AUTO_REGISTER_GROUP", "WORKLOAD_ENTRY"} {
		_ = m.str(k)
	}
	_ = m.strings("ANNOTATIONS")
}
