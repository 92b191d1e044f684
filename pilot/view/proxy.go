package view

import (
	"google.golang.org/protobuf/types/known/structpb"
)

// Type is the node type in the node id.
type Type string

// The node types.
const (
	Sidecar  Type = "sidecar"
	Router   Type = "router"
	Waypoint Type = "waypoint"
	Ztunnel  Type = "ztunnel"
)

// Profile says which extensions a proxy links.
type Profile string

// The profiles. A client that lists no extension has the Istio profile.
const (
	IstioProfile Profile = "istio"
	StockProfile Profile = "stock"
)

// Family is the set of IP families of a proxy's addresses.
type Family uint8

// The families.
const (
	IPv4 Family = iota
	IPv6
	DualStack
)

// Interception is how traffic reaches the sidecar.
type Interception string

// The interception modes.
const (
	Redirect Interception = "REDIRECT"
	TProxy   Interception = "TPROXY"
	None     Interception = "NONE"
)

// Proxy is one client, parsed from the node of its first request. It is immutable.
type Proxy struct {
	// ID is "pod.namespace" and NodeID the whole id "type~ip~id~domain".
	ID, NodeID string
	Type       Type
	IPs        []string
	// Namespace is the configuration namespace.
	Namespace string
	DNSDomain string
	ClusterID string
	Network   string
	// NetworkView limits the networks whose endpoints are seen; nil means all.
	NetworkView    []string
	NodeName       string
	ServiceAccount string
	// Labels are the metadata's labels; the workload's own win over them.
	Labels       map[string]string
	StaticLabels map[string]string
	// Locality is the node's, "region/zone/subzone"; labels win over it.
	Locality string
	// Version is major, minor, patch of the Istio version; 65535 where it is not given.
	Version   [3]int
	Generator string // metadata GENERATOR: "grpc", "api", "event" or empty
	Profile   Profile
	// Links is which optional extensions the proxy lists.
	Links Links
	// Delta tells whether the proxy's stream is of the delta variant of xDS. Whoever serves the stream sets it before it
	// gives the proxy to others.
	Delta bool
	// Verified tells whether the client has proved the identity of the workload that its node names. Whoever serves the
	// stream sets it before it gives the proxy to others; without it secrets are not for this proxy.
	Verified bool
	// PodPorts resolves named target ports when the pod is not known: "name/protocol" to number.
	PodPorts map[string]uint32
	// Metadata is the raw node metadata; generators read it through Context.Meta.
	Metadata *structpb.Struct
	// UserAgent is the client's name and version, for people.
	UserAgent string
}
