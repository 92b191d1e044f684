package model

import (
	"github.com/mizzen-mesh/mizzen/pkg/store"
)

// discoveryState is what the builder keeps to derive services, endpoints and workloads key by key. All of it follows
// from the objects of the current PushContext.
type discoveryState struct {
	pods, entries workloadMap // every pod and WorkloadEntry, as a workload
	networks      *networkTable

	addresses      index // address -> names (ObjectKey.String) of the pods and entries that have it
	nodePods       index // node -> rows of its pods
	serviceSlices  index // row of a Kubernetes service -> rows of its slices
	podSlices      index // row of a pod -> rows of the slices that refer to it
	addressSlices  index // "namespace/address" -> rows of the slices that list it without a reference
	hostEntries    index // "namespace/host" -> rows of its ServiceEntries
	nodeServices   rowSet
	aliasesTo      index // host -> "namespace/host" of the services that are defined as another name of it
	selections     map[ObjectKey]*selection
	selectionIndex map[labelPair]map[ObjectKey]struct{}

	candidates  map[string][]*Service // "namespace/host" -> its services, the one that counts first
	targetAddrs map[string][]string   // "namespace/host" -> addresses under which targetsAt holds it
	targetsAt   index                 // "namespace/address" -> "namespace/host"

	gatewayOwners map[string]bool // "namespace/host" of services that are network gateways
}

func (s *discoveryState) start() {
	s.pods, s.entries = workloadMap{}, workloadMap{}
	s.addresses, s.nodePods = index{}, index{}
	s.serviceSlices, s.podSlices, s.addressSlices = index{}, index{}, index{}
	s.hostEntries, s.nodeServices, s.aliasesTo = index{}, rowSet{}, index{}
	s.selections, s.selectionIndex = map[ObjectKey]*selection{}, map[labelPair]map[ObjectKey]struct{}{}
	s.candidates, s.targetAddrs, s.targetsAt = map[string][]*Service{}, map[string][]string{}, index{}
}

// discoveryWork is one derivation under way: what must be looked at again, and the tables being written.
type discoveryWork struct {
	*commit
	*discoveryState

	dirtyWorkloads  map[ObjectKey]struct{}
	dirtySelections map[ObjectKey]struct{}
	dirtyServices   map[string]ServiceKey
	dirtyEndpoints  map[string]ServiceKey
	dirtyAddresses  rowSet
	dirtyAliases    rowSet // hosts
	public          listEdit[*Service]
	exported        map[string]*listEdit[*Service]

	systemNetwork *string
	services      *store.Txn[*Service]
	hosts         *store.Txn[[]string]
	endpoints     *store.Txn[*Endpoints]
	workloads     *store.Txn[*Workload]
}

// deriveDiscovery brings services, hosts, visibility, endpoints, aliases and workloads up to date with c.changes.
func (b *Builder) deriveDiscovery(c *commit) {
	if len(c.changes) == 0 && !c.mesh && b.networks != nil {
		return
	}
	w := newDiscoveryWork(c, &b.discoveryState)
	if c.mesh || w.networks == nil {
		w.networks = newNetworkTable(c.next.mesh.Networks, c.next.settings.ClusterID)
	}
	for _, ch := range c.changes {
		w.note(ch)
	}
	if c.mesh {
		w.everything()
	}
	w.deriveWorkloads()
	w.deriveSelections()
	w.deriveServices()
	w.deriveAliases()
	w.deriveEndpoints()
	w.finish()
	b.deriveNetworkGateways(c, w.dirtyServices)
}

func newDiscoveryWork(c *commit, s *discoveryState) *discoveryWork {
	return &discoveryWork{
		commit: c, discoveryState: s,
		dirtyWorkloads: map[ObjectKey]struct{}{}, dirtySelections: map[ObjectKey]struct{}{},
		dirtyServices: map[string]ServiceKey{}, dirtyEndpoints: map[string]ServiceKey{},
		dirtyAddresses: rowSet{}, dirtyAliases: rowSet{}, exported: map[string]*listEdit[*Service]{},
		services: c.next.services.Txn(), hosts: c.next.hosts.Txn(),
		endpoints: c.next.endpoints.Txn(), workloads: c.next.workloads.Txn(),
	}
}

func (w *discoveryWork) finish() {
	w.next.endpoints = w.endpoints.Commit()
}

// everything has all that exists looked at again.
func (w *discoveryWork) everything() {
	w.allWorkloads()
	for row, list := range w.candidates {
		w.dirtyServices[row] = list[0].ServiceKey
		w.dirtyEndpoints[row] = list[0].ServiceKey
	}
}

func (w *discoveryWork) allWorkloads() {
	for _, m := range []workloadMap{w.pods, w.entries} {
		for _, names := range m {
			for _, x := range names {
				w.dirtyWorkloads[x.Object] = struct{}{}
			}
		}
	}
}

func (w *discoveryWork) dirtyService(k ServiceKey) { w.dirtyServices[k.String()] = k }

func (w *discoveryWork) dirtyEndpoint(k ServiceKey) { w.dirtyEndpoints[k.String()] = k }

// kubernetesKey returns the key of the Kubernetes service with that name.
func (w *discoveryWork) kubernetesKey(namespace, name string) ServiceKey {
	return ServiceKey{kubernetesHost(name, namespace, w.next.settings.Domain), namespace}
}

type namespaceMeta struct{ labels, annotations map[string]string }

func (w *discoveryWork) namespace(name string) namespaceMeta {
	o, ok := w.next.objects[KindNamespace].Get("/" + name)
	if !ok {
		return namespaceMeta{}
	}
	return namespaceMeta{o.Labels, o.Annotations}
}

func (w *discoveryWork) spiffeID(namespace, account string) string {
	return "spiffe://" + w.next.mesh.TrustDomain() + "/ns/" + namespace + "/sa/" + account
}
