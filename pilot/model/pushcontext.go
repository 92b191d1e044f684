package model

import (
	"github.com/mizzen-mesh/mizzen/pkg/store"
)

// PushContext is everything the control plane knows at one generation. It is immutable and complete. Only a Reader
// looks into it.
type PushContext struct {
	// Generation counts commits of the process, from 1.
	Generation uint64
	settings   *Settings
	mesh       *Mesh

	objects map[Kind]store.Table[*Object] // "namespace/name"; the map itself is never modified

	services     store.Table[*Service]   // "namespace/host"
	hosts        store.Table[[]string]   // host -> namespaces that hold it, sorted
	publicSvcs   []*Service              // exported to everybody, in creation order
	exportedSvcs store.Table[[]*Service] // namespace -> exported to it and not public, same order
	endpoints    store.Table[*Endpoints] // "namespace/host"
	aliases      store.Table[[]ServiceKey]
	workloads    store.Table[*Workload]    // as TableWorkload says
	workloadIPs  store.Table[[]*Workload]  // ip -> workloads
	targets      store.Table[[]ServiceKey] // "namespace/address"

	virtualServices store.Table[*VirtualService] // "namespace/name"
	publicVS        []*VirtualService
	exportedVS      store.Table[[]*VirtualService]
	hostVS          store.Table[[]*VirtualService]  // host as written -> rules that name it, oldest first
	wildcardVS      []string                        // wildcard hosts that rules name, most specific first
	rules           store.Table[[]*DestinationRule] // host -> rules of all namespaces
	wildcardRules   []string                        // wildcard hosts that have rules, most specific first
	sidecars        store.Table[[]*Sidecar]         // namespace -> in order of selection
	peerAuth        store.Table[[]*PeerAuthentication]
	testedLabels    map[string]struct{}
	gateways        []NetworkGateway // between networks, in order
}
