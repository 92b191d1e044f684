package model

import (
	"time"

	mesh "istio.io/api/mesh/v1alpha1"
)

// Mesh is the mesh-wide configuration in force. It is immutable.
type Mesh struct {
	Config   *mesh.MeshConfig
	Networks *mesh.MeshNetworks
	// Defaults of exportTo, parsed from Config.
	DefaultServiceExportTo, DefaultVirtualServiceExportTo, DefaultDestinationRuleExportTo []string
}

// RootNamespace returns the namespace whose policies apply to the whole mesh.
func (m *Mesh) RootNamespace() string { return m.Config.GetRootNamespace() }

// TrustDomain returns the mesh's own trust domain.
func (m *Mesh) TrustDomain() string { return m.Config.GetTrustDomain() }

// Settings are what environment variables and flags fix for the process's life. Names and defaults of the variables
// are in the table of cmd/mizzen.
type Settings struct {
	Domain          string // "cluster.local"
	ClusterID       string // "Kubernetes"
	SystemNamespace string // "istio-system"
	Revision        string

	DualStack                     bool // ISTIO_DUAL_STACK
	EnableEDSForHeadless          bool // PILOT_ENABLE_EDS_FOR_HEADLESS_SERVICES
	SendUnhealthyEndpoints        bool // PILOT_SEND_UNHEALTHY_ENDPOINTS
	AutoSendUnhealthy             bool // PILOT_AUTO_SEND_UNHEALTHY_ENDPOINTS
	DrainingLabel                 string
	EnableIPAutoallocate          bool
	HTTP10                        bool // PILOT_HTTP10
	EnableAmbient                 bool
	EnableMetadataExchange        bool
	EnableTelemetryLabel          bool
	EnablePersistentSessionFilter bool
	EnableLocalityWeightedLB      bool
	EnableQUIC                    bool
	EnableRedisFilter             bool
	EnableMongoFilter             bool
	EnableMySQLFilter             bool
	SidecarServiceInboundMerge    bool
	UnifiedSidecarScope           bool
	ScopeGatewayToNamespace       bool
	FilterGatewayClusterConfig    bool
	EnhancedDestinationRuleMerge  bool
	PreferDRTLSForExternal        bool
	DisableMXALPN                 bool
	VHDS                          VHDSMode // MIZZEN_VHDS

	DebounceAfter     time.Duration // PILOT_DEBOUNCE_AFTER
	DebounceMax       time.Duration // PILOT_DEBOUNCE_MAX
	RequestsPerSecond float64       // PILOT_MAX_REQUESTS_PER_SECOND: new streams; 0 means by the number of processors
	SharedMeshConfig  string        // SHARED_MESH_CONFIG: a ConfigMap beneath the revision's own, or empty
	// Raw holds every other variable of the table by name, for generators that need a rare one.
	Raw map[string]string
}

// VHDSMode says when virtual hosts are sent one by one to Envoys that can take them so.
type VHDSMode string

// The modes: Auto uses VHDS for route configurations above a size.
const (
	VHDSOff  VHDSMode = "off"
	VHDSOn   VHDSMode = "on"
	VHDSAuto VHDSMode = "auto"
)

// DefaultSettings returns the settings of a process started without flags and variables.
func DefaultSettings() *Settings {
	return &Settings{
		Domain: "cluster.local", ClusterID: "Kubernetes", SystemNamespace: "istio-system",
		AutoSendUnhealthy: true, DrainingLabel: "istio.io/draining", EnableIPAutoallocate: true,
		EnableMetadataExchange: true, EnableTelemetryLabel: true, UnifiedSidecarScope: true, EnableMongoFilter: true,
		EnhancedDestinationRuleMerge: true, PreferDRTLSForExternal: true, VHDS: VHDSOff,
		DebounceAfter: 100 * time.Millisecond, DebounceMax: 10 * time.Second,
	}
}
