package model

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// bigWorld returns n services with two pods each, in 20 namespaces.
func bigWorld(n int) []*Object {
	var out []*Object
	for i := range n {
		ns, name := fmt.Sprintf("ns%d", i%20), fmt.Sprintf("svc%d", i)
		labels := map[string]string{"app": name, labelTLSMode: tlsModeIstio}
		out = append(out, &Object{
			ObjectKey: ObjectKey{Kind: KindService, Namespace: ns, Name: name}, Created: second(i),
			Spec: &corev1.Service{Spec: corev1.ServiceSpec{
				Selector: labels, ClusterIP: fmt.Sprintf("10.96.%d.%d", i/250, i%250+1),
				Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
			}},
		})
		for j := range 2 {
			out = append(out, &Object{
				ObjectKey: ObjectKey{Kind: KindPod, Namespace: ns, Name: fmt.Sprintf("%s-%d", name, j)}, Labels: labels,
				Spec: &corev1.Pod{
					Spec: corev1.PodSpec{ServiceAccountName: name},
					Status: corev1.PodStatus{
						PodIP:      fmt.Sprintf("10.%d.%d.%d", j+1, i/250, i%250+1),
						Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
					},
				},
			})
		}
		out = append(out, bigSlice(i, true))
	}
	return out
}

func bigSlice(i int, ready bool) *Object {
	ns, name := fmt.Sprintf("ns%d", i%20), fmt.Sprintf("svc%d", i)
	s := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4}
	s.Ports = []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080))}}
	for j := range 2 {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{fmt.Sprintf("10.%d.%d.%d", j+1, i/250, i%250+1)},
			Conditions: discoveryv1.EndpointConditions{Ready: ptr(ready || j == 0), Terminating: ptr(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: fmt.Sprintf("%s-%d", name, j)},
		})
	}
	return &Object{
		ObjectKey: ObjectKey{Kind: KindEndpointSlice, Namespace: ns, Name: name + "-x"},
		Labels:    map[string]string{labelServiceName: name}, Spec: s,
	}
}

// BenchmarkEndpointSliceChange is one slice whose one endpoint comes and goes, among 1,000 services and 2,000 pods.
func BenchmarkEndpointSliceChange(b *testing.B) {
	m := NewBuilder(DefaultSettings(), testMesh())
	m.Apply(present(bigWorld(1000)...), nil)
	slices := [2][]Event{present(bigSlice(500, false)), present(bigSlice(500, true))}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		m.Apply(slices[i%2], nil)
		i++
	}
}

// BenchmarkFirstCommit derives everything at once.
func BenchmarkFirstCommit(b *testing.B) {
	events := present(bigWorld(1000)...)
	b.ReportAllocs()
	for b.Loop() {
		NewBuilder(DefaultSettings(), testMesh()).Apply(events, nil)
	}
}
