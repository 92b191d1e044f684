package view

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
)

// PatchGroup is the patches of EnvoyFilters that change one type of resources.
type PatchGroup uint8

// The groups.
const (
	ClusterPatches PatchGroup = iota
	ListenerPatches
	RoutePatches
	ExtensionPatches
	numPatchGroups
)

// maxProxyVersion is up to how many bytes a version, and an expression for it, are looked at.
const maxProxyVersion = 1024

// PatchRef names those patches of one EnvoyFilter that are for a proxy, by their place in it.
type PatchRef struct {
	Object  model.ObjectKey
	Indexes []int
}

// EnvoyFilterPatches returns the patches of a group that are for the proxy, in the order in which they apply: by
// priority, those of the root namespace first, then by age. What they match in a resource is not looked at. The result
// is shared. Facts: translation-l7 §7, ingestion §5.6.
func (c *Context) EnvoyFilterPatches(g PatchGroup) []PatchRef {
	c.use(PropClusterPatches + cell.Prop(g))
	return c.view.patches[g]
}

// PatchGroupOf returns the group of a patch; false for what no resource of ours holds, such as a bootstrap.
func PatchGroupOf(to networking.EnvoyFilter_ApplyTo) (PatchGroup, bool) {
	switch to {
	case networking.EnvoyFilter_CLUSTER:
		return ClusterPatches, true
	case networking.EnvoyFilter_LISTENER, networking.EnvoyFilter_LISTENER_FILTER, networking.EnvoyFilter_FILTER_CHAIN,
		networking.EnvoyFilter_NETWORK_FILTER, networking.EnvoyFilter_HTTP_FILTER:
		return ListenerPatches, true
	case networking.EnvoyFilter_ROUTE_CONFIGURATION, networking.EnvoyFilter_VIRTUAL_HOST, networking.EnvoyFilter_HTTP_ROUTE:
		return RoutePatches, true
	case networking.EnvoyFilter_EXTENSION_CONFIG:
		return ExtensionPatches, true
	default:
		return 0, false
	}
}

// patchesOf finds the patches for a proxy. It is done where the view is made, so that proxies to which the same patches
// apply share what is made for them, whatever namespaces, labels and versions they have.
func patchesOf(r *model.Reader, p *Proxy, labels map[string]string) (out [numPatchGroups][]PatchRef) {
	if p.Type == Ztunnel || p.Generator != "" || !r.HasObjects(model.KindEnvoyFilter) {
		return out
	}
	for _, o := range envoyFilters(r, p.Namespace) {
		spec, ok := o.Spec.(*networking.EnvoyFilter)
		if !ok || len(spec.GetTargetRefs()) > 0 || !model.LabelsMatch(spec.GetWorkloadSelector().GetLabels(), labels) {
			continue
		}
		var indexes [numPatchGroups][]int
		for i, patch := range spec.GetConfigPatches() {
			if g, known := PatchGroupOf(patch.GetApplyTo()); known && matchesProxy(patch.GetMatch().GetProxy(), p.Metadata) {
				indexes[g] = append(indexes[g], i)
			}
		}
		for g, list := range indexes {
			if len(list) > 0 {
				out[g] = append(out[g], PatchRef{o.ObjectKey, list})
			}
		}
	}
	return out
}

// envoyFilters returns the EnvoyFilters of the root namespace and of namespace in the order in which they apply.
func envoyFilters(r *model.Reader, namespace string) []*model.Object {
	root := r.Mesh().RootNamespace()
	var all []*model.Object
	if root != "" {
		all = r.Objects(model.KindEnvoyFilter, root)
	}
	if namespace != root {
		all = append(all, r.Objects(model.KindEnvoyFilter, namespace)...)
	}
	slices.SortStableFunc(all, func(a, b *model.Object) int {
		rootFirst := func(o *model.Object) int {
			if o.Namespace == root {
				return 0
			}
			return 1
		}
		return cmp.Or(
			cmp.Compare(priority(a), priority(b)), cmp.Compare(rootFirst(a), rootFirst(b)), a.Created.Compare(b.Created),
			cmp.Compare(a.Name+"."+a.Namespace, b.Name+"."+b.Namespace),
		)
	})
	return all
}

func priority(o *model.Object) int32 {
	f, _ := o.Spec.(*networking.EnvoyFilter)
	return f.GetPriority()
}

func matchesProxy(m *networking.EnvoyFilter_ProxyMatch, metadata *structpb.Struct) bool {
	if pattern := m.GetProxyVersion(); pattern != "" {
		version := metadata.GetFields()["ISTIO_VERSION"].GetStringValue()
		if version == "" || len(version) > maxProxyVersion || len(pattern) > maxProxyVersion {
			return false
		}
		re, err := regexp.Compile(pattern)
		if err != nil || !re.MatchString(version) {
			return false
		}
	}
	for k, want := range m.GetMetadata() {
		if got, ok := metadata.GetFields()[k].GetKind().(*structpb.Value_StringValue); !ok || got.StringValue != want {
			return false
		}
	}
	return true
}

func patchesText(refs []PatchRef) string {
	var b strings.Builder
	for _, r := range refs {
		fmt.Fprintf(&b, "%s%v,", r.Object.Row(), r.Indexes)
	}
	return b.String()
}
