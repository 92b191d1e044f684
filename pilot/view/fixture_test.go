package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pkg/cell"
	"google.golang.org/protobuf/types/known/structpb"
	"sigs.k8s.io/yaml"
)

func testMesh() *model.Mesh {
	return &model.Mesh{Config: &mesh.MeshConfig{RootNamespace: "istio-system", TrustDomain: "cluster.local"}}
}

// object returns an object called "namespace/name", created age seconds after the epoch, with a spec in YAML.
func object(t testing.TB, k model.Kind, row string, age int, spec string) *model.Object {
	t.Helper()
	var into any
	switch k {
	case model.KindVirtualService:
		into = &networking.VirtualService{}
	case model.KindDestinationRule:
		into = &networking.DestinationRule{}
	case model.KindSidecar:
		into = &networking.Sidecar{}
	case model.KindServiceEntry:
		into = &networking.ServiceEntry{}
	case model.KindPeerAuthentication:
		into = &security.PeerAuthentication{}
	default:
		t.Fatalf("no spec type for kind %s", k)
	}
	if err := yaml.Unmarshal([]byte(spec), into); err != nil {
		t.Fatalf("%s %s: %v", k, row, err)
	}
	ns, name, _ := strings.Cut(row, "/")
	return &model.Object{
		ObjectKey: model.ObjectKey{Kind: k, Namespace: ns, Name: name}, Created: time.Unix(int64(age), 0).UTC(), Spec: into,
	}
}

// service returns a Kubernetes Service; exportTo is its annotation, if not empty.
func service(row string, age int, exportTo string, ports ...int32) *model.Object {
	ns, name, _ := strings.Cut(row, "/")
	s := &corev1.Service{}
	s.Name, s.Namespace = name, ns
	s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.0.1", []string{"10.0.0.1"}
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: fmt.Sprintf("http-%d", p), Port: p, Protocol: corev1.ProtocolTCP})
	}
	o := &model.Object{
		ObjectKey: model.ObjectKey{Kind: model.KindService, Namespace: ns, Name: name},
		Created:   time.Unix(int64(age), 0).UTC(), Spec: s,
	}
	if exportTo != "" {
		o.Annotations = map[string]string{"networking.istio.io/exportTo": exportTo}
		s.Annotations = o.Annotations
	}
	return o
}

// entry returns a ServiceEntry of one host with HTTP ports.
func entry(t testing.TB, row string, age int, host, more string, ports ...int) *model.Object {
	t.Helper()
	var list []string
	for _, p := range ports {
		list = append(list, fmt.Sprintf("{number: %d, name: http-%d, protocol: HTTP}", p, p))
	}
	return object(t, model.KindServiceEntry, row, age,
		fmt.Sprintf("{hosts: [%q], resolution: DNS, ports: [%s]%s}", host, strings.Join(list, ", "), more))
}

func present(objects ...*model.Object) []model.Event {
	var out []model.Event
	for _, o := range objects {
		out = append(out, model.Event{Key: o.ObjectKey, Object: o})
	}
	return out
}

// world is a builder with the graph that lives on its PushContexts.
type world struct {
	*model.Builder
	graph *cell.Graph
}

func newWorld(objects ...*model.Object) *world {
	w := &world{model.NewBuilder(model.DefaultSettings(), testMesh()), cell.New()}
	DefineScope(w.graph, w.Current)
	w.apply(objects...)
	return w
}

func (w *world) apply(objects ...*model.Object) {
	_, keys := w.Apply(present(objects...), nil)
	w.graph.Invalidate(keys)
}

// view returns the view of a sidecar in namespace with labels.
func (w *world) view(typ Type, namespace string, labels map[string]string) *View {
	return Of(model.NewReader(w.Current(), nil), &Proxy{
		ID: "pod." + namespace, Type: typ, Namespace: namespace, Labels: labels, IPs: []string{"10.1.0.1"},
		ClusterID: "Kubernetes", Metadata: &structpb.Struct{},
	})
}

// context returns a context for a sidecar, with the recorder of what is read through it.
func (w *world) context(namespace string, labels map[string]string) (*Context, *cell.Recorder) {
	rec := &cell.Recorder{}
	return NewContext(w.Current(), rec, w.graph, w.view(Sidecar, namespace, labels)), rec
}

func (w *world) scope(namespace string, labels map[string]string) *Scope {
	c, _ := w.context(namespace, labels)
	return c.Scope()
}

// short leaves out the suffix of cluster names.
func short(host string) string { return strings.TrimSuffix(host, ".svc.cluster.local") }

// services writes scoped services as "host@namespace:port,port".
func services(list []*ScopedService) string {
	var out []string
	for _, s := range list {
		var ports []string
		for _, p := range s.Ports {
			ports = append(ports, fmt.Sprint(p.Number))
		}
		out = append(out, short(s.Host)+"@"+s.Namespace+":"+strings.Join(ports, ","))
	}
	return strings.Join(out, " ")
}

func rules(list []*model.VirtualService) string {
	var out []string
	for _, v := range list {
		out = append(out, v.Row())
	}
	return strings.Join(out, " ")
}
