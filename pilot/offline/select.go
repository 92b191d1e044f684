package offline

import (
	"maps"
	"slices"

	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

func sortedNames(m map[string]*Resource) []string { return slices.Sorted(maps.Keys(m)) }

// selecting returns the objects that apply to a pod by their namespace and selector and that no recorded read names one by
// one: its Sidecar, its PeerAuthentications up to the one that decides, its RequestAuthentications.
func (p *Plane) selecting(pod *corev1.Pod) []string {
	var out []string
	if s := p.sidecarOf(pod); s != nil {
		out = append(out, s.String())
	}
	for _, o := range p.applying(model.KindPeerAuthentication, pod) {
		out = append(out, o.String())
		spec, _ := o.Spec.(*security.PeerAuthentication)
		if spec.GetMtls().GetMode() != security.PeerAuthentication_MutualTLS_UNSET {
			break
		}
	}
	for _, o := range p.applying(model.KindRequestAuthentication, pod) {
		out = append(out, o.String())
	}
	return out
}

// applying returns a policy kind's objects that apply to a pod, the most specific first: those that select it, those of
// its namespace, those of the mesh.
func (p *Plane) applying(k model.Kind, pod *corev1.Pod) []*model.Object {
	var own, namespace, mesh []*model.Object
	for _, o := range p.sorted(k) {
		root := o.Namespace == p.mesh.RootNamespace()
		if o.Namespace != pod.Namespace && !root {
			continue
		}
		labels := selectorOf(o)
		switch {
		case len(labels) > 0 && within(labels, pod.Labels):
			own = append(own, o)
		case len(labels) > 0:
		case o.Namespace == pod.Namespace:
			namespace = append(namespace, o)
		default:
			mesh = append(mesh, o)
		}
	}
	return slices.Concat(own, namespace, mesh)
}

func selectorOf(o *model.Object) map[string]string {
	switch s := o.Spec.(type) {
	case *security.PeerAuthentication:
		return s.GetSelector().GetMatchLabels()
	case *security.RequestAuthentication:
		return s.GetSelector().GetMatchLabels()
	case *networking.Sidecar:
		return s.GetWorkloadSelector().GetLabels()
	}
	return nil
}

// within tells whether labels has all of want.
func within(want, labels map[string]string) bool {
	for k, v := range want {
		if has, ok := labels[k]; !ok || has != v {
			return false
		}
	}
	return true
}

// sidecarOf returns the Sidecar of a pod, nil if it has none: one that selects it, else its namespace's, else the mesh's.
func (p *Plane) sidecarOf(pod *corev1.Pod) *model.Object {
	var namespace, mesh *model.Object
	for _, o := range p.sorted(model.KindSidecar) {
		labels := selectorOf(o)
		switch {
		case o.Namespace == pod.Namespace && len(labels) > 0 && within(labels, pod.Labels):
			return o
		case len(labels) > 0:
		case o.Namespace == pod.Namespace && namespace == nil:
			namespace = o
		case o.Namespace == p.mesh.RootNamespace() && mesh == nil:
			mesh = o
		}
	}
	if namespace != nil {
		return namespace
	}
	return mesh
}
