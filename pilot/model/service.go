package model

import (
	"time"

	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Protocol is a service port's application protocol. The strings are the ones users write.
type Protocol string

// The protocols of a service port.
const (
	HTTP        Protocol = "HTTP"
	HTTP2       Protocol = "HTTP2"
	GRPC        Protocol = "GRPC"
	GRPCWeb     Protocol = "GRPC-Web"
	HTTPProxy   Protocol = "HTTP_PROXY"
	HTTPS       Protocol = "HTTPS"
	TLS         Protocol = "TLS"
	TCP         Protocol = "TCP"
	Mongo       Protocol = "Mongo"
	Redis       Protocol = "Redis"
	MySQL       Protocol = "MySQL"
	UDP         Protocol = "UDP"
	Unsupported Protocol = "UnsupportedProtocol" // undeclared: the proxy sniffs
)

// IsHTTP tells whether p is declared HTTP of any version.
func (p Protocol) IsHTTP() bool { return p == HTTP || p == HTTPProxy || p.IsHTTP2() }

// IsHTTP2 tells whether p is carried over HTTP/2.
func (p Protocol) IsHTTP2() bool { return p == HTTP2 || p == GRPC || p == GRPCWeb }

// IsTLS tells whether p is routed by SNI.
func (p Protocol) IsTLS() bool { return p == HTTPS || p == TLS }

// IsTCP tells whether p is declared and handled as a byte stream, TLS included.
func (p Protocol) IsTCP() bool {
	return p == TCP || p == Mongo || p == Redis || p == MySQL || p.IsTLS()
}

// IsAuto tells whether the proxy must find out.
func (p Protocol) IsAuto() bool { return p == Unsupported }

// Resolution says how a service's endpoints are found.
type Resolution uint8

// The resolutions.
const (
	ClientSideLB  Resolution = iota // endpoints are sent
	DNSLB                           // each address of the name is an endpoint
	DNSRoundRobin                   // one address of the name at a time
	Passthrough                     // the caller's destination address
	DynamicDNS                      // resolved at request time
	Alias                           // another name of another service
)

// Registry says which kind of source a service came from.
type Registry string

// The registries.
const (
	Kubernetes Registry = "Kubernetes"
	External   Registry = "External"
)

// ServiceKey names a service. Several namespaces may hold a service of one host.
type ServiceKey struct {
	Host      string
	Namespace string
}

// String returns "namespace/host".
func (k ServiceKey) String() string { return k.Namespace + "/" + k.Host }

// Visibility says to which namespaces something is exported, defaults already applied.
type Visibility struct {
	Public     bool
	Namespaces map[string]struct{} // when not public; "." is already the owner's namespace; empty: nobody
}

// Allows tells whether namespace ns may see it.
func (v Visibility) Allows(ns string) bool {
	if v.Public {
		return true
	}
	_, ok := v.Namespaces[ns]
	return ok
}

// Port is one port of a service.
type Port struct {
	Name     string
	Number   uint32
	Protocol Protocol
	// TargetPort is the numeric target port, 0 if it is named or equal to what each endpoint says.
	TargetPort uint32
	// TargetPortName is a Kubernetes target port given by name.
	TargetPortName string
}

// TrafficDistribution is a service's wish for near endpoints.
type TrafficDistribution uint8

// The traffic distributions.
const (
	DistributeAny TrafficDistribution = iota
	PreferSameZone
	PreferSameNode
)

// Service is one service of the mesh: a Kubernetes Service or one host of a ServiceEntry.
type Service struct {
	ServiceKey
	Registry Registry
	// Name is the Kubernetes name, or the host for ServiceEntries: it goes into metadata and orders services.
	Name string
	// Object is what defines the service.
	Object     ObjectKey
	Created    time.Time
	Resolution Resolution
	// MeshExternal services get no mutual TLS of their own.
	MeshExternal bool
	// Address is the default address: an IP, a CIDR (ServiceEntry), or "0.0.0.0" for none.
	Address string
	// ClusterVIPs are the addresses by cluster id; ServiceEntry addresses stand under "".
	ClusterVIPs map[string][]string
	// AutoV4 and AutoV6 are auto-allocated addresses, used only by proxies that capture DNS.
	AutoV4, AutoV6 string
	Ports          []*Port
	// Selector selects the workloads; nil selects nothing, empty (ServiceEntry) everything in the namespace.
	Selector    map[string]string
	Labels      map[string]string
	Annotations map[string]string
	ExportTo    Visibility
	// NodeLocal restricts callers to endpoints on their own node.
	NodeLocal           bool
	PublishNotReady     bool
	TrafficDistribution TrafficDistribution
	// SubjectAltNames are accounts given on the object: annotations, or ServiceEntry subjectAltNames.
	SubjectAltNames []string
	// ExternalAddresses are load balancer or external IPs.
	ExternalAddresses []string
	// AliasOf is the host that an Alias service stands for.
	AliasOf string
	// ConnectStrategyRace is set when DNS clusters race all addresses.
	ConnectStrategyRace bool
	// SessionCookie and SessionHeader are the persistent session labels' values.
	SessionCookie, SessionHeader string
}

// PortByNumber returns the port with number n, or nil.
func (s *Service) PortByNumber(n uint32) *Port {
	for _, p := range s.Ports {
		if p.Number == n {
			return p
		}
	}
	return nil
}

// Headless tells whether callers address the endpoints themselves.
func (s *Service) Headless() bool { return s.Resolution == Passthrough }

// Health is an endpoint's state. The numbers are Envoy's HealthStatus where that has one.
type Health uint8

// The states of an endpoint.
const (
	HealthUnknown Health = 0 // ServiceEntry endpoints: sent without a status
	Healthy       Health = 1
	Unhealthy     Health = 2
	Draining      Health = 3
	Terminating   Health = 4
)

// Endpoint is one address and port of a service, immutable and shared.
type Endpoint struct {
	// Addresses are IPs, one FQDN (DNS services), or one "unix://path".
	Addresses []string
	// PortName is the service port's name; ServicePort its number where the source knows it (ServiceEntry), else 0.
	PortName    string
	ServicePort uint32
	Port        uint32
	Labels      map[string]string // topology labels included
	// ServiceAccount is a SPIFFE id, or empty.
	ServiceAccount string
	// TLSMode is "istio", "disabled" or a custom label value.
	TLSMode           string
	Locality          string // "region/zone/subzone", or empty
	Network           string
	Cluster           string
	Weight            uint32 // 0 means 1
	Health            Health
	Namespace         string
	WorkloadName      string
	Hostname          string // per-pod DNS, only with Subdomain
	Subdomain         string
	Node              string
	CanonicalName     string
	CanonicalRevision string
	HBONE             bool // the workload takes tunnels at port 15008
	// Source is the object that made the endpoint.
	Source ObjectKey
}

// Endpoints are all endpoints of one service, in a stable order: clusters sorted, then source order.
type Endpoints struct {
	Service ServiceKey
	All     []*Endpoint
	// ServiceAccounts is the sorted union of the endpoints' accounts.
	ServiceAccounts []string
}

// ServiceTarget is a service port that a workload serves itself.
type ServiceTarget struct {
	Service *Service
	Port    *Port
	// TargetPort is where the workload listens.
	TargetPort uint32
}

// Workload is a pod or WorkloadEntry as the proxy's own side sees it.
type Workload struct {
	Object         ObjectKey
	Cluster        string
	Namespace      string
	IPs            []string
	Labels         map[string]string
	ServiceAccount string // the account's name
	Node           string
	Locality       string
	Ready          bool
	Name           string // workload name (Deployment)
	// NamedPorts maps "name/protocol" to the container port. A WorkloadEntry's ports count as TCP.
	NamedPorts map[string]uint32

	// What endpoints take from it.
	tlsMode, network                 string
	hostname, subdomain              string
	canonicalName, canonicalRevision string
	weight                           uint32
	labelled                         bool // the object itself has labels
	hbone                            bool // a node proxy takes tunnels for it
}

// The tables that a Reader reads. Each constant says how its rows are named.
const (
	TableObject           cell.Table = iota // "Kind/namespace/name"
	TableObjects                            // "Kind/namespace": the ordered list of a namespace's objects
	TableMesh                               // ""
	TableService                            // "namespace/host"
	TableHost                               // "host": which namespaces hold it
	TableVisible                            // "namespace" or "*": services exported to it (membership, order, content)
	TableNamespaceService                   // "namespace": services that live in it
	TableEndpoints                          // "namespace/host"
	TableAccounts                           // "namespace/host": the service accounts behind a service
	TableAliases                            // "namespace/host"
	TableVirtualService                     // "namespace/name" (delegates merged in)
	TableVisibleVS                          // "namespace" or "*"
	TableDestinationRule                    // "host": all rules for exactly that host (also a wildcard's text)
	TableWildcardDR                         // "": the set of wildcard hosts that have rules
	TableSidecar                            // "namespace"
	TablePeerAuth                           // "namespace": peer authentication policies
	TableWorkload                           // "cluster/namespace/pod", "cluster/namespace/entry:name", or "ip/<address>"
	TableTestedLabels                       // "": the label keys that some selector tests
	TableGateways                           // network gateways: ""
	TableNode                               // "name"
	TableTargets                            // "namespace/address": services whose endpoints, not selector, make it their own
	TableVSHost                             // "host": the virtual services that name exactly that host
	TableWildcardVS                         // "": the set of wildcard hosts that virtual services name
)
