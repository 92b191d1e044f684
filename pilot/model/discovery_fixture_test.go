package model

import (
	"strings"
	"testing"
	"time"

	meta "istio.io/api/meta/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"sigs.k8s.io/yaml"
)

// manifest returns the object that a manifest in YAML describes, in the form that sources deliver.
func manifest(t testing.TB, text string) *Object {
	t.Helper()
	var head struct {
		Kind     Kind              `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     any               `json:"spec"`
		Status   any               `json:"status"`
	}
	mustParse(t, text, &head)
	m := head.Metadata
	o := &Object{
		ObjectKey: ObjectKey{Kind: head.Kind, Namespace: m.Namespace, Name: m.Name},
		Labels:    m.Labels, Annotations: m.Annotations, Created: m.CreationTimestamp.UTC(),
	}
	whole := map[Kind]any{
		KindService: &corev1.Service{}, KindPod: &corev1.Pod{}, KindNode: &corev1.Node{}, KindNamespace: &corev1.Namespace{},
		KindEndpointSlice: &discoveryv1.EndpointSlice{},
	}
	if into, ok := whole[head.Kind]; ok {
		mustParse(t, text, into)
		o.Spec = into
		return o
	}
	parts := map[Kind][2]any{
		KindServiceEntry:  {&networking.ServiceEntry{}, &networking.ServiceEntryStatus{}},
		KindWorkloadEntry: {&networking.WorkloadEntry{}, &meta.IstioStatus{}},
	}
	into, ok := parts[head.Kind]
	if !ok {
		t.Fatalf("no type for kind %q", head.Kind)
	}
	parsePart(t, head.Spec, into[0])
	o.Spec = into[0]
	if head.Status != nil {
		parsePart(t, head.Status, into[1])
		o.Status = into[1]
	}
	return o
}

func parsePart(t testing.TB, part, into any) {
	t.Helper()
	text, err := yaml.Marshal(part)
	if err != nil {
		t.Fatal(err)
	}
	mustParse(t, string(text), into)
}

func mustParse(t testing.TB, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// manifests splits documents at "---" lines.
func manifests(t testing.TB, text string) []*Object {
	t.Helper()
	var out []*Object
	for _, doc := range strings.Split(text, "\n---") {
		if strings.TrimSpace(doc) != "" {
			out = append(out, manifest(t, doc))
		}
	}
	return out
}

// worldOf returns a reader over a PushContext made of manifests alone.
func worldOf(t testing.TB, text string) *Reader {
	t.Helper()
	return readerOf(t, manifests(t, text)...)
}

func second(n int) time.Time { return time.Unix(int64(n), 0).UTC() }
