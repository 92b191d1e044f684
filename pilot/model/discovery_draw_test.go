package model

import (
	"maps"
	"time"

	meta "istio.io/api/meta/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"pgregory.net/rapid"
)

func drawnPods() []string { return []string{"p1", "p2"} }

func drawnIPs() []string { return []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} }

func drawnServiceHosts() []string {
	return []string{"s1.a.svc.cluster.local", "s2.a.svc.cluster.local", "s1.b.svc.cluster.local", "ext.com", "*.ext.com"}
}

// drawDiscoveryEvent draws a change of one of few objects, so that histories meet the same ones again and again.
func drawDiscoveryEvent(t *rapid.T) Event {
	kind := rapid.SampledFrom([]Kind{
		KindService, KindService, KindEndpointSlice, KindEndpointSlice, KindPod, KindPod, KindServiceEntry, KindServiceEntry,
		KindWorkloadEntry, KindNode, KindNamespace,
	}).Draw(t, "kind")
	names := map[Kind][]string{
		KindService: {"s1", "s2"}, KindEndpointSlice: {"e1", "e2"}, KindPod: drawnPods(), KindServiceEntry: {"x", "y"},
		KindWorkloadEntry: {"p1", "v"}, KindNode: {"n"}, KindNamespace: {"a", "b", "istio-system"},
	}
	key := ObjectKey{Kind: kind, Name: rapid.SampledFrom(names[kind]).Draw(t, "name")}
	if kind != KindNode && kind != KindNamespace {
		key.Namespace = rapid.SampledFrom([]string{"a", "a", "b"}).Draw(t, "namespace")
	}
	if rapid.IntRange(0, 3).Draw(t, "gone") == 0 {
		return Event{Key: key}
	}
	o := &Object{ObjectKey: key, Created: time.Unix(int64(rapid.IntRange(1, 3).Draw(t, "age")), 0).UTC()}
	drawObject(t, o)
	return Event{Key: key, Object: o}
}

func drawObject(t *rapid.T, o *Object) {
	switch o.Kind {
	case KindService:
		drawService(t, o)
	case KindEndpointSlice:
		drawSlice(t, o)
	case KindPod:
		drawPod(t, o)
	case KindServiceEntry:
		drawServiceEntry(t, o)
	case KindWorkloadEntry:
		drawWorkloadEntry(t, o)
	case KindNode:
		o.Labels = map[string]string{labelRegion: rapid.SampledFrom([]string{"", "eu", "us"}).Draw(t, "region"), "pool": "1"}
		o.Spec = &corev1.Node{Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeExternalIP, Address: rapid.SampledFrom([]string{"", "192.0.2.1"}).Draw(t, "external")},
		}}}
	default:
		o.Labels = map[string]string{
			labelNetwork: rapid.SampledFrom([]string{"", "", "n1"}).Draw(t, "network"),
			"share":      rapid.SampledFrom([]string{"", "all"}).Draw(t, "share"),
		}
		o.Annotations = drawDistribution(t)
		o.Spec = &corev1.Namespace{}
	}
}

func drawDistribution(t *rapid.T) map[string]string {
	if d := rapid.SampledFrom([]string{"", "PreferClose", "prefersamenode"}).Draw(t, "distribution"); d != "" {
		return map[string]string{annotationDistribution: d}
	}
	return nil
}

func set(t *rapid.T, m map[string]string, key string, values ...string) map[string]string {
	if v := rapid.SampledFrom(append([]string{"", ""}, values...)).Draw(t, key); v != "" {
		m = maps.Clone(m)
		if m == nil {
			m = map[string]string{}
		}
		m[key] = v
	}
	return m
}

func drawService(t *rapid.T, o *Object) {
	o.Annotations = set(t, drawDistribution(t), annotationExportTo, ".", "~", "a, b", "*")
	o.Annotations = set(t, o.Annotations, annotationKubernetesAccounts, "extra")
	o.Labels = set(t, nil, labelPersistentSession, "sid")
	s := &corev1.Service{Spec: corev1.ServiceSpec{
		Selector:  drawLabels(t),
		ClusterIP: rapid.SampledFrom([]string{"10.96.0.1", "10.96.0.1", "None"}).Draw(t, "cluster IP"),
		Ports: []corev1.ServicePort{
			{Name: "http", Port: 80, TargetPort: rapid.SampledFrom([]intstr.IntOrString{
				intstr.FromInt32(8080), intstr.FromString("web"),
			}).Draw(t, "target")},
			{Name: "tcp-2", Port: 81, TargetPort: intstr.FromInt32(8080)},
		},
	}}
	switch rapid.IntRange(0, 5).Draw(t, "type") {
	case 0:
		s.Spec = corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: rapid.SampledFrom(drawnServiceHosts()).Draw(t, "external name"),
		}
	case 1:
		s.Spec.Type = corev1.ServiceTypeNodePort
		o.Annotations = set(t, o.Annotations, annotationNodeSelector, `{"pool": "1"}`)
	}
	o.Spec = s
}

func drawSlice(t *rapid.T, o *Object) {
	o.Labels = map[string]string{labelServiceName: rapid.SampledFrom([]string{"s1", "s2"}).Draw(t, "service")}
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	name, port := rapid.SampledFrom([]string{"http", "tcp-2"}).Draw(t, "port"), int32(8080)
	s.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &port}}
	for range rapid.IntRange(0, 3).Draw(t, "endpoints") {
		e := discoveryv1.Endpoint{Addresses: []string{rapid.SampledFrom(drawnIPs()).Draw(t, "address")}}
		if pod := rapid.SampledFrom(append([]string{""}, drawnPods()...)).Draw(t, "pod"); pod != "" {
			e.TargetRef = &corev1.ObjectReference{Kind: "Pod", Name: pod}
		}
		state := func(name string) *bool {
			return rapid.SampledFrom([]*bool{nil, new(bool), ptr(true)}).Draw(t, name)
		}
		e.Conditions = discoveryv1.EndpointConditions{
			Ready: state("ready"), Serving: state("serving"), Terminating: state("terminating"),
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	o.Spec = s
}

func ptr[T any](v T) *T { return &v }

func drawPod(t *rapid.T, o *Object) {
	o.Labels = set(t, set(t, drawLabels(t), labelTLSMode, "istio"), labelLegacyLocality, "r.z")
	p := &corev1.Pod{
		Spec: corev1.PodSpec{
			ServiceAccountName: rapid.SampledFrom([]string{"sa1", "sa2"}).Draw(t, "account"),
			NodeName:           rapid.SampledFrom([]string{"", "n", "n"}).Draw(t, "node"),
			Subdomain:          rapid.SampledFrom([]string{"", "sub"}).Draw(t, "subdomain"),
			Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{
				Name: "web", ContainerPort: int32(rapid.IntRange(9090, 9091).Draw(t, "web")), Protocol: corev1.ProtocolTCP,
			}}}},
		},
		Status: corev1.PodStatus{
			PodIP: rapid.SampledFrom(append([]string{""}, drawnIPs()...)).Draw(t, "ip"),
			Phase: rapid.SampledFrom([]corev1.PodPhase{corev1.PodRunning, corev1.PodRunning, corev1.PodFailed}).Draw(t, "phase"),
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: rapid.SampledFrom([]corev1.ConditionStatus{
				corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionFalse,
			}).Draw(t, "ready")}},
		},
	}
	if rapid.IntRange(0, 5).Draw(t, "deleting") == 0 {
		p.DeletionTimestamp = &metav1.Time{Time: second(9)}
	}
	o.Spec = p
}

func drawServiceEntry(t *rapid.T, o *Object) {
	o.Annotations = drawDistribution(t)
	o.Labels = set(t, nil, "team", "1")
	e := &networking.ServiceEntry{
		Hosts:      rapid.SliceOfN(rapid.SampledFrom(drawnServiceHosts()), 1, 2).Draw(t, "hosts"),
		ExportTo:   drawExportTo(t),
		Resolution: networking.ServiceEntry_Resolution(rapid.IntRange(0, 4).Draw(t, "resolution")),
		Ports: []*networking.ServicePort{{
			Number: uint32(rapid.IntRange(80, 81).Draw(t, "number")), Name: rapid.SampledFrom([]string{"http", "web"}).Draw(t, "port"), //nolint:gosec // small
			Protocol: "HTTP", TargetPort: uint32(rapid.IntRange(0, 1).Draw(t, "target")) * 8080, //nolint:gosec // small
		}},
		SubjectAltNames: rapid.SampledFrom([][]string{nil, {"spiffe://x/ns/a/sa/b"}}).Draw(t, "accounts"),
	}
	if rapid.IntRange(0, 2).Draw(t, "own addresses") == 0 {
		e.Addresses = []string{"203.0.113.9", "203.0.113.0/28"}
	}
	switch rapid.IntRange(0, 2).Draw(t, "workloads") {
	case 0:
		for range rapid.IntRange(1, 2).Draw(t, "inline") {
			e.Endpoints = append(e.Endpoints, drawWorkloadSpec(t))
		}
	case 1:
		e.WorkloadSelector = &networking.WorkloadSelector{Labels: drawLabels(t)}
	}
	if rapid.Bool().Draw(t, "allocated") {
		o.Status = &networking.ServiceEntryStatus{Addresses: []*networking.ServiceEntryAddress{
			{Value: "240.240.0.1", Host: "ext.com"}, {Value: "2001:2::1", Host: "ext.com"},
		}}
	}
	o.Spec = e
}

func drawWorkloadSpec(t *rapid.T) *networking.WorkloadEntry {
	w := &networking.WorkloadEntry{
		Address: rapid.SampledFrom(append([]string{"vm.ext.com", "unix:///sock"}, drawnIPs()...)).Draw(t, "address"),
		Labels:  drawLabels(t), Weight: uint32(rapid.IntRange(0, 1).Draw(t, "weight")), //nolint:gosec // small
		Network:        rapid.SampledFrom([]string{"", "", "n2"}).Draw(t, "network"),
		ServiceAccount: rapid.SampledFrom([]string{"", "vm"}).Draw(t, "account"),
	}
	if rapid.Bool().Draw(t, "ports") {
		w.Ports = map[string]uint32{"http": 9000, "web": 9001}
	}
	return w
}

func drawWorkloadEntry(t *rapid.T, o *Object) {
	o.Spec = drawWorkloadSpec(t)
	o.Labels = set(t, nil, "tier", "1")
	if rapid.IntRange(0, 2).Draw(t, "checked") == 0 {
		o.Annotations = map[string]string{annotationHealthChecks: "true"}
		o.Status = &meta.IstioStatus{Conditions: []*meta.IstioCondition{{
			Type: conditionHealthy, Status: rapid.SampledFrom([]string{"True", "False"}).Draw(t, "healthy"),
		}}}
	}
}
