package model

import (
	"maps"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
	metav1 "istio.io/api/type/v1beta1"

	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// Origin is what something was computed from: rows, and the proxy that it was computed for.
type Origin struct {
	Rows []cell.Key
	// Namespace and Labels are the proxy's; of the labels those that some selector tests. Of the objects that rows list by
	// namespace those count that select it.
	Namespace string
	Labels    map[string]string
}

// Makers returns the users' objects behind an origin, each once, by kind, namespace and name: which objects made what was
// computed from it. Rows that stand for all services, rules or the mesh configuration name none; nor do those of Sidecars,
// of which view.View.Rows names the one in force.
func (pc *PushContext) Makers(o Origin) []ObjectKey {
	f := finder{pc: pc, origin: o, found: map[ObjectKey]struct{}{}}
	for _, row := range o.Rows {
		f.add(pc.makersOf(row)...)
		switch row.Table {
		case TableObjects:
			f.selected(row.Name)
		case TablePeerAuth:
			f.peerAuthentications(row.Name)
		}
	}
	return slices.SortedFunc(maps.Keys(f.found), ObjectKey.Compare)
}

// makersOf returns the objects behind a row, whoever reads it.
func (pc *PushContext) makersOf(row cell.Key) []ObjectKey {
	switch row.Table {
	case TableObject:
		kind, rest, _ := strings.Cut(row.Name, "/")
		if o, ok := pc.objects[Kind(kind)].Get(rest); ok {
			return []ObjectKey{o.ObjectKey}
		}
	case TableService:
		if s, ok := pc.services.Get(row.Name); ok {
			return []ObjectKey{s.Object}
		}
	case TableVirtualService:
		if v, ok := pc.virtualServices.Get(row.Name); ok {
			return append([]ObjectKey{v.ObjectKey}, v.Delegates...)
		}
	case TableDestinationRule:
		return pc.ruleMakers(row.Name)
	case TableEndpoints:
		e, _ := pc.endpoints.Get(row.Name)
		return sources(endpointsOf(e))
	case TableWorkload:
		return pc.workloadMakers(row.Name)
	case TableTargets:
		return pc.targetMakers(row.Name)
	}
	return nil
}

func (pc *PushContext) ruleMakers(host string) []ObjectKey {
	var out []ObjectKey
	rules, _ := pc.rules.Get(host)
	for _, r := range rules {
		for _, o := range r.From {
			out = append(out, o.ObjectKey)
		}
	}
	return out
}

// sources returns what made the endpoints; neighbours mostly have one source.
func sources(list []*Endpoint) []ObjectKey {
	var out []ObjectKey
	for _, e := range list {
		if len(out) == 0 || out[len(out)-1] != e.Source {
			out = append(out, e.Source)
		}
	}
	return out
}

func (pc *PushContext) workloadMakers(row string) []ObjectKey {
	var list []*Workload
	if ip, ok := strings.CutPrefix(row, "ip/"); ok {
		list, _ = pc.workloadIPs.Get(ip)
	} else if w, ok := pc.workloads.Get(row); ok {
		list = []*Workload{w}
	}
	var out []ObjectKey
	for _, w := range list {
		out = append(out, w.Object)
	}
	return out
}

func (pc *PushContext) targetMakers(row string) []ObjectKey {
	var out []ObjectKey
	keys, _ := pc.targets.Get(row)
	for _, k := range keys {
		if s, ok := pc.services.Get(k.String()); ok {
			out = append(out, s.Object)
		}
	}
	return out
}

// finder collects the objects behind one origin.
type finder struct {
	pc     *PushContext
	origin Origin
	found  map[ObjectKey]struct{}
}

func (f *finder) add(keys ...ObjectKey) {
	for _, k := range keys {
		f.found[k] = struct{}{}
	}
}

// selected adds, of a list of a namespace's objects of a kind, those that select the proxy. The row that tells only
// whether there are any lists none.
func (f *finder) selected(row string) {
	kind, namespace, ok := strings.Cut(row, "/")
	if !ok {
		return
	}
	for _, o := range f.pc.objects[Kind(kind)].Prefix(namespace + "/") {
		if !namesTargets(o.Spec) && LabelsMatch(selectorOf(o.Spec), f.origin.Labels) {
			f.add(o.ObjectKey)
		}
	}
}

// namesTargets tells whether an object is about Gateways or services that it names, not about workloads.
func namesTargets(spec any) bool {
	if s, many := spec.(interface {
		GetTargetRefs() []*metav1.PolicyTargetReference
	}); many && len(s.GetTargetRefs()) > 0 {
		return true
	}
	s, one := spec.(interface {
		GetTargetRef() *metav1.PolicyTargetReference
	})
	return one && s.GetTargetRef() != nil
}

// selectorOf returns the labels of the workloads that an object is about, empty for all.
func selectorOf(spec any) map[string]string {
	switch s := spec.(type) {
	case interface {
		GetSelector() *metav1.WorkloadSelector
	}:
		return s.GetSelector().GetMatchLabels()
	case interface {
		GetWorkloadSelector() *networking.WorkloadSelector
	}:
		return s.GetWorkloadSelector().GetLabels()
	case *networking.Gateway:
		return s.GetSelector()
	}
	return nil
}

// peerAuthentications adds the policies of a namespace that are in force for the proxy, or for an endpoint there that the
// origin has read: the oldest of each scope. Policies with a selector count outside of the root namespace only.
func (f *finder) peerAuthentications(namespace string) {
	list, _ := f.pc.peerAuth.Get(namespace)
	for _, p := range list {
		if len(p.Selector()) == 0 {
			f.add(p.ObjectKey)
			break
		}
	}
	if namespace == f.pc.mesh.RootNamespace() {
		return
	}
	if namespace == f.origin.Namespace {
		f.add(firstSelecting(list, f.origin.Labels)...)
	}
	if !slices.ContainsFunc(list, func(p *PeerAuthentication) bool { return len(p.Selector()) > 0 }) {
		return
	}
	for _, row := range f.origin.Rows {
		if row.Table != TableEndpoints {
			continue
		}
		e, _ := f.pc.endpoints.Get(row.Name)
		for _, x := range endpointsOf(e) {
			if x.Namespace == namespace {
				f.add(firstSelecting(list, x.Labels)...)
			}
		}
	}
}

func firstSelecting(list []*PeerAuthentication, labels map[string]string) []ObjectKey {
	for _, p := range list {
		if len(p.Selector()) > 0 && LabelsMatch(p.Selector(), labels) {
			return []ObjectKey{p.ObjectKey}
		}
	}
	return nil
}
