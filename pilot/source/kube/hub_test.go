package kube

import (
	"testing"

	mesh "istio.io/api/mesh/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
	"github.com/mizzen-mesh/mizzen/pilot/source/selection"
)

// fixture is a hub with the tables of a few kinds.
type fixture struct {
	*testing.T
	hub  *hub
	sink *recorder
}

func newFixture(t *testing.T, revision string, selectors ...labels.Selector) *fixture {
	t.Helper()
	f := &fixture{T: t, sink: newRecorder()}
	f.hub = newHub("c", "istio-system", revision, f.sink, selectors)
	return f
}

func (f *fixture) table(kind model.Kind) *table {
	return &table{hub: f.hub, resource: convert.NewCatalog().Kind(kind), replaced: func() {}}
}

func (f *fixture) add(kind model.Kind, v any) {
	f.Helper()
	if err := f.table(kind).Add(v); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) want(want string) {
	f.Helper()
	if got := f.sink.names(); got != want {
		f.Errorf("got  %s\nwant %s", got, want)
	}
}

func meta(namespace, name string, l map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: l}
}

func namespace(name string, l map[string]string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: meta("", name, l)}
}

func service(ns, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: meta(ns, name, nil)}
}

func sidecar(ns, name, revision string, spec map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "networking.istio.io/v1", "kind": "Sidecar", "spec": spec,
		"metadata": map[string]any{"namespace": ns, "name": name},
	}}
	if revision != "" {
		u.SetLabels(map[string]string{selection.RevisionLabel: revision})
	}
	return u
}

func TestRelistDeliversDeletions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	tab := f.table(model.KindService)
	if err := tab.Replace([]any{service("shop", "a"), service("shop", "b")}, "1"); err != nil {
		t.Fatal(err)
	}
	f.want("Service/shop/a Service/shop/b")
	before := f.sink.events
	if err := tab.Replace([]any{service("shop", "b"), service("shop", "c")}, "9"); err != nil {
		t.Fatal(err)
	}
	f.want("Service/shop/b Service/shop/c")
	if got := f.sink.events - before; got != 2 {
		t.Errorf("%d events for one new and one deleted object", got)
	}
}

func TestTransformedLists(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	tab := f.table(model.KindService)
	v, err := tab.Transformer()(service("shop", "a"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := tab.Transformer()(v)
	if err != nil || again != v {
		t.Fatal("transforming twice", again, err)
	}
	if err := tab.Replace([]any{again}, "1"); err != nil {
		t.Fatal(err)
	}
	f.want("Service/shop/a")
	if err := tab.Delete(service("shop", "a")); err != nil {
		t.Fatal(err)
	}
	f.want("")
}

func TestSelectors(t *testing.T) {
	t.Parallel()
	in, err := selection.Parse([]*mesh.LabelSelector{{MatchLabels: map[string]string{"mesh": "in"}}})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, "", in...)
	f.add(model.KindService, service("shop", "a"))
	f.add(model.KindService, service("other", "b"))
	remote := &corev1.Secret{ObjectMeta: meta("istio-system", "remote", map[string]string{"istio/multiCluster": "true"})}
	f.add(model.KindSecret, remote)
	f.want("Secret/istio-system/remote") // whatever the selectors say
	f.add(model.KindNamespace, namespace("shop", map[string]string{"mesh": "in"}))
	f.add(model.KindNamespace, namespace("other", nil))
	f.want("Namespace//other Namespace//shop Secret/istio-system/remote Service/shop/a")
	f.add(model.KindNamespace, namespace("other", map[string]string{"mesh": "in"}))
	f.want("Namespace//other Namespace//shop Secret/istio-system/remote Service/other/b Service/shop/a")
	f.add(model.KindNamespace, namespace("shop", nil))
	f.want("Namespace//other Namespace//shop Secret/istio-system/remote Service/other/b")
	if err := f.table(model.KindNamespace).Delete(namespace("other", nil)); err != nil {
		t.Fatal(err)
	}
	f.want("Namespace//shop Secret/istio-system/remote")
	f.hub.selectNamespaces(nil)
	f.want("Namespace//shop Secret/istio-system/remote Service/other/b Service/shop/a")
	f.hub.selectNamespaces(in)
	f.want("Namespace//shop Secret/istio-system/remote")
	if _, err := selection.Parse([]*mesh.LabelSelector{{MatchLabels: map[string]string{"?": ""}}}); err == nil {
		t.Error("an invalid selector is no error")
	}
}

func TestRevisions(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "blue")
	spec := map[string]any{"egress": []any{}}
	f.add(model.KindSidecar, sidecar("shop", "none", "", spec))
	f.add(model.KindSidecar, sidecar("shop", "mine", "blue", spec))
	f.add(model.KindSidecar, sidecar("shop", "other", "green", spec))
	f.want("Sidecar/shop/mine Sidecar/shop/none")
	f.add(model.KindSidecar, sidecar("shop", "mine", "green", spec))
	f.want("Sidecar/shop/none")
}

func TestBrokenObjects(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	good := map[string]any{"egress": []any{map[string]any{"hosts": []any{"./*"}, "newer": "field"}}}
	f.add(model.KindSidecar, sidecar("shop", "a", "", good))
	f.want("Sidecar/shop/a")
	f.add(model.KindSidecar, sidecar("shop", "a", "", map[string]any{"egress": "none"}))
	f.want("Sidecar/shop/a")
	if p := f.sink.problems; len(p) != 1 || p[0].Field != "spec.egress" || p[0].Object.Name != "a" {
		t.Errorf("problems: %+v", p)
	}
	f.add(model.KindSidecar, sidecar("shop", "a", "", good))
	if p := f.sink.problems; len(p) != 0 {
		t.Errorf("problems: %+v", p)
	}
}

func TestNothingChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "")
	pod := func(version string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta("shop", "a", nil)}
		p.ResourceVersion = version
		p.Spec.Containers = []corev1.Container{{Name: "a", Image: "image:" + version}}
		return p
	}
	f.add(model.KindPod, pod("1"))
	f.add(model.KindPod, pod("2"))
	if f.sink.events != 1 {
		t.Errorf("%d events for an update of what nothing reads", f.sink.events)
	}
}

func TestDefinitions(t *testing.T) {
	t.Parallel()
	catalog := convert.NewCatalog()
	for _, c := range []struct {
		kind   model.Kind
		bundle string
		want   bool
	}{
		{model.KindHTTPRoute, "", true},
		{model.KindGRPCRoute, "", false},
		{model.KindGRPCRoute, "v1.1.0-rc.1", true},
		{model.KindGRPCRoute, "v1.0.9", false},
		{model.KindTCPRoute, "v1.10.0", true},
		{model.KindTLSRoute, "v1.4.9", false},
		{model.KindBackendTLSPolicy, "nonsense", false},
	} {
		if got := usable(catalog.Kind(c.kind), map[string]string{bundleVersion: c.bundle}); got != c.want {
			t.Errorf("%s of %q: %v", c.kind, c.bundle, got)
		}
	}
	if !listed("sidecars.networking.istio.io", []string{"*.istio.io"}) || listed("sidecars.networking.istio.io", []string{"*.io.x", "gateways.networking.istio.io"}) {
		t.Error("patterns of definitions")
	}
}
