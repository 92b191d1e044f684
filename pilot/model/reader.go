package model

import (
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Reader looks into one PushContext and records what it looks at. A nil Recorder is allowed for readers whose result
// is not kept (debug output).
type Reader struct {
	pc  *PushContext
	rec *cell.Recorder
}

// NewReader returns a reader of pc that records into rec.
func NewReader(pc *PushContext, rec *cell.Recorder) *Reader { return &Reader{pc: pc, rec: rec} }

func (r *Reader) read(t cell.Table, name string) { r.rec.Read(cell.Key{Table: t, Name: name}) }

// Settings returns what is fixed for the process's life; it needs no recording.
func (r *Reader) Settings() *Settings { return r.pc.settings }

// Mesh returns the mesh configuration.
func (r *Reader) Mesh() *Mesh {
	r.read(TableMesh, "")
	return r.pc.mesh
}

// Object returns one object, or nil.
func (r *Reader) Object(k ObjectKey) *Object {
	r.read(TableObject, k.String())
	o, _ := r.pc.objects[k.Kind].Get(k.Row())
	return o
}

// Objects returns a namespace's objects of a kind, oldest first. Policies and extensions are read this way.
func (r *Reader) Objects(k Kind, namespace string) []*Object {
	r.read(TableObjects, string(k)+"/"+namespace)
	var out []*Object
	for _, o := range r.pc.objects[k].Prefix(namespace + "/") {
		out = append(out, o)
	}
	sortOldest(out)
	return out
}

// HasObjects tells whether any namespace holds an object of that kind. Ask it before a lookup by the proxy's namespace:
// where there is none, the namespace need not be looked at.
func (r *Reader) HasObjects(k Kind) bool {
	r.read(TableObjects, string(k))
	return r.pc.objects[k].Len() > 0
}

// Service returns the service, or nil.
func (r *Reader) Service(k ServiceKey) *Service {
	r.read(TableService, k.String())
	s, _ := r.pc.services.Get(k.String())
	return s
}

// ServicesOfHost returns the services of that host in all namespaces, by namespace.
func (r *Reader) ServicesOfHost(host string) []*Service {
	r.read(TableHost, host)
	namespaces, _ := r.pc.hosts.Get(host)
	out := make([]*Service, 0, len(namespaces))
	for _, ns := range namespaces {
		if s := r.Service(ServiceKey{host, ns}); s != nil {
			out = append(out, s)
		}
	}
	return out
}

// VisibleServices returns the services that namespace sees: those exported to it by name, then the public ones, each
// in creation order. The slices are shared: they must not be modified. The recorded read covers membership, order and
// content of all of them.
func (r *Reader) VisibleServices(namespace string) (exported, public []*Service) {
	r.read(TableVisible, namespace)
	r.read(TableVisible, "*")
	exported, _ = r.pc.exportedSvcs.Get(namespace)
	return exported, r.pc.publicSvcs
}

// NamespaceServices returns the services that live in namespace, oldest first.
func (r *Reader) NamespaceServices(namespace string) []*Service {
	r.read(TableNamespaceService, namespace)
	var out []*Service
	for _, s := range r.pc.services.Prefix(namespace + "/") {
		out = append(out, s)
	}
	sortServices(out)
	return out
}

// Endpoints returns the endpoints of a service; never nil.
func (r *Reader) Endpoints(k ServiceKey) *Endpoints {
	r.read(TableEndpoints, k.String())
	if e, ok := r.pc.endpoints.Get(k.String()); ok {
		return e
	}
	return &Endpoints{Service: k}
}

// ServiceAccounts returns the accounts behind a service: those of its endpoints and those on the object, expanded to
// the trust domain aliases, sorted. It changes much less often than Endpoints.
func (r *Reader) ServiceAccounts(k ServiceKey) []string {
	r.read(TableAccounts, k.String())
	return r.pc.serviceAccounts(k)
}

// Aliases returns the services that stand for k (ExternalName), sorted.
func (r *Reader) Aliases(k ServiceKey) []ServiceKey {
	r.read(TableAliases, k.String())
	a, _ := r.pc.aliases.Get(k.String())
	return a
}

// VirtualService returns the prepared rule, or nil.
func (r *Reader) VirtualService(namespace, name string) *VirtualService {
	r.read(TableVirtualService, namespace+"/"+name)
	v, _ := r.pc.virtualServices.Get(namespace + "/" + name)
	return v
}

// VisibleVirtualServices returns the rules that namespace sees: its own private ones and those exported to it, then
// the public ones, each in creation order. Delegates are not among them.
func (r *Reader) VisibleVirtualServices(namespace string) (exported, public []*VirtualService) {
	r.read(TableVisibleVS, namespace)
	r.read(TableVisibleVS, "*")
	exported, _ = r.pc.exportedVS.Get(namespace)
	return exported, r.pc.publicVS
}

// VirtualServicesOfHost returns the rules of all namespaces that have a host which covers host: those that name exactly
// host, then those of the wildcards that cover it, most specific first, each oldest first. A rule that names several of
// them is there several times. Who sees a rule is for the caller to check.
func (r *Reader) VirtualServicesOfHost(host string) []*VirtualService {
	r.read(TableVSHost, host)
	out, _ := r.pc.hostVS.Get(host)
	r.read(TableWildcardVS, "")
	for _, w := range r.pc.wildcardVS {
		if w != host && hostMatches(w, host) {
			r.read(TableVSHost, w)
			more, _ := r.pc.hostVS.Get(w)
			out = append(out[:len(out):len(out)], more...)
		}
	}
	return out
}

// DestinationRules returns the candidate rules for a host in all namespaces: those for exactly host, then those of the
// wildcards that match it, most specific first. Which of them applies to a proxy is RuleLookup's to say.
func (r *Reader) DestinationRules(host string) []*DestinationRule {
	r.read(TableDestinationRule, host)
	out, _ := r.pc.rules.Get(host)
	r.read(TableWildcardDR, "")
	for _, w := range r.pc.wildcardRules {
		if w != host && hostMatches(w, host) {
			r.read(TableDestinationRule, w)
			more, _ := r.pc.rules.Get(w)
			out = append(out[:len(out):len(out)], more...)
		}
	}
	return out
}

// Sidecars returns a namespace's Sidecar objects in order of selection: those with a selector first, oldest first.
func (r *Reader) Sidecars(namespace string) []*Sidecar {
	r.read(TableSidecar, namespace)
	s, _ := r.pc.sidecars.Get(namespace)
	return s
}

// PeerAuthentications returns a namespace's policies, oldest first.
func (r *Reader) PeerAuthentications(namespace string) []*PeerAuthentication {
	r.read(TablePeerAuth, namespace)
	p, _ := r.pc.peerAuth.Get(namespace)
	return p
}

// Workload returns the pod with that name as a workload, or nil. An empty cluster searches all.
func (r *Reader) Workload(cluster, namespace, name string) *Workload {
	if cluster == "" {
		cluster = r.pc.settings.ClusterID
	}
	row := cluster + "/" + namespace + "/" + name
	r.read(TableWorkload, row)
	w, _ := r.pc.workloads.Get(row)
	return w
}

// WorkloadsByIP returns the workloads that have the address, in a stable order.
func (r *Reader) WorkloadsByIP(ip string) []*Workload {
	r.read(TableWorkload, "ip/"+ip)
	w, _ := r.pc.workloadIPs.Get(ip)
	return w
}

// TestedLabels returns the label keys that some selector, subset or priority list tests. Other labels of a proxy
// cannot make a difference.
func (r *Reader) TestedLabels() map[string]struct{} {
	r.read(TableTestedLabels, "")
	return r.pc.testedLabels
}

// Namespace returns the namespace's labels and annotations, empty if it is not known.
func (r *Reader) Namespace(name string) (labels, annotations map[string]string) {
	o := r.Object(ObjectKey{Kind: KindNamespace, Name: name})
	if o == nil {
		return nil, nil
	}
	return o.Labels, o.Annotations
}
