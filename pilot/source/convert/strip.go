package convert

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// strip removes from v, in place, what no part of the model reads, and applies the defaults that an API server applies
// to manifests, as far as the model reads the fields.
func strip(v metav1.Object) {
	if len(v.GetLabels()) == 0 {
		v.SetLabels(nil)
	}
	kept := metav1.ObjectMeta{
		Name: v.GetName(), Namespace: v.GetNamespace(), Labels: v.GetLabels(), Annotations: keptAnnotations(v.GetAnnotations()),
	}
	if k, ok := v.(interface{ GetObjectKind() schema.ObjectKind }); ok {
		k.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	switch t := v.(type) {
	case *corev1.Pod:
		stripPod(t, kept)
	case *corev1.Node:
		addresses := t.Status.Addresses
		*t = corev1.Node{ObjectMeta: kept}
		t.Status.Addresses = addresses
	case *corev1.Namespace:
		if kept.Labels == nil {
			kept.Labels = map[string]string{}
		}
		kept.Labels[corev1.LabelMetadataName] = kept.Name // selectors of namespaces rely on it
		*t = corev1.Namespace{ObjectMeta: kept}
	case *corev1.Secret:
		stripSecret(t, kept)
	case *corev1.ConfigMap:
		*t = corev1.ConfigMap{ObjectMeta: kept, Data: keptData(t.Data, configKey), BinaryData: keptData(t.BinaryData, configKey)}
	case *corev1.Service:
		stripService(t, kept)
	case *discoveryv1.EndpointSlice:
		stripSlice(t, kept)
	default:
		clearMeta(v, kept)
		gatewayDefaults(v)
	}
}

// clearMeta replaces the metadata of a type that is not listed above.
func clearMeta(v metav1.Object, kept metav1.ObjectMeta) {
	if a, ok := v.(metav1.ObjectMetaAccessor); ok {
		if m, ok := a.GetObjectMeta().(*metav1.ObjectMeta); ok {
			*m = kept
		}
	}
}

func stripPod(p *corev1.Pod, kept metav1.ObjectMeta) {
	kept.GenerateName = p.GenerateName
	kept.OwnerReferences = p.OwnerReferences
	kept.DeletionTimestamp = p.DeletionTimestamp
	spec, status := p.Spec, p.Status
	*p = corev1.Pod{
		ObjectMeta: kept,
		Spec: corev1.PodSpec{
			ServiceAccountName: spec.ServiceAccountName, NodeName: spec.NodeName, HostNetwork: spec.HostNetwork,
			Hostname: spec.Hostname, Subdomain: spec.Subdomain,
			Containers: stripContainers(spec.Containers), InitContainers: stripContainers(spec.InitContainers),
		},
		Status: corev1.PodStatus{
			Phase: status.Phase, PodIP: status.PodIP, PodIPs: status.PodIPs,
			HostIP: status.HostIP, Conditions: stripConditions(status.Conditions),
		},
	}
}

func stripContainers(in []corev1.Container) []corev1.Container {
	if len(in) == 0 {
		return nil
	}
	out := make([]corev1.Container, len(in))
	for i, c := range in {
		out[i] = corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy}
		for j := range out[i].Ports {
			defaultProtocol(&out[i].Ports[j].Protocol)
		}
	}
	return out
}

// stripConditions keeps the two conditions that endpoint health reads, without times and texts.
func stripConditions(in []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range in {
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			out = append(out, corev1.PodCondition{Type: c.Type, Status: c.Status})
		}
	}
	return out
}

func stripSecret(s *corev1.Secret, kept metav1.ObjectMeta) {
	data := s.Data
	for k, v := range s.StringData {
		if data == nil {
			data = map[string][]byte{}
		}
		data[k] = []byte(v)
	}
	kind := s.Type
	if kind == "" {
		kind = corev1.SecretTypeOpaque
	}
	if !RemoteSecret(kept.Labels) {
		data = keptData(data, certificateKey)
	}
	*s = corev1.Secret{ObjectMeta: kept, Data: data, Type: kind}
}

func stripService(s *corev1.Service, kept metav1.ObjectMeta) {
	spec, status := s.Spec, s.Status
	*s = corev1.Service{
		ObjectMeta: kept,
		Spec: corev1.ServiceSpec{
			Ports: spec.Ports, Selector: spec.Selector, ClusterIP: spec.ClusterIP, ClusterIPs: spec.ClusterIPs,
			Type: spec.Type, ExternalIPs: spec.ExternalIPs, ExternalName: spec.ExternalName,
			PublishNotReadyAddresses: spec.PublishNotReadyAddresses, IPFamilies: spec.IPFamilies,
			IPFamilyPolicy: spec.IPFamilyPolicy, InternalTrafficPolicy: spec.InternalTrafficPolicy,
			TrafficDistribution: spec.TrafficDistribution, LoadBalancerIP: spec.LoadBalancerIP,
		},
		Status: corev1.ServiceStatus{LoadBalancer: status.LoadBalancer},
	}
	if s.Spec.Type == "" {
		s.Spec.Type = corev1.ServiceTypeClusterIP
	}
	if s.Spec.ClusterIP == "" && len(s.Spec.ClusterIPs) > 0 {
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	}
	if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP != "" {
		s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		defaultProtocol(&p.Protocol)
		if p.TargetPort == intstr.FromInt32(0) || p.TargetPort == intstr.FromString("") {
			p.TargetPort = intstr.FromInt32(p.Port)
		}
	}
}

func stripSlice(s *discoveryv1.EndpointSlice, kept metav1.ObjectMeta) {
	*s = discoveryv1.EndpointSlice{ObjectMeta: kept, AddressType: s.AddressType, Endpoints: s.Endpoints, Ports: s.Ports}
	if len(s.Endpoints) == 0 {
		s.Endpoints = nil // a cluster drops the empty list that people must write
	}
	for i := range s.Endpoints {
		if ref := s.Endpoints[i].TargetRef; ref != nil {
			*ref = corev1.ObjectReference{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
		}
	}
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new(string)
		}
		if p.Protocol == nil {
			tcp := corev1.ProtocolTCP
			p.Protocol = &tcp
		}
	}
}

func defaultProtocol(p *corev1.Protocol) {
	if *p == "" {
		*p = corev1.ProtocolTCP
	}
}
