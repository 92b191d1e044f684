package model

import (
	"strings"
	"testing"
	"time"

	mesh "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	security "istio.io/api/security/v1beta1"

	"github.com/mizzen-mesh/mizzen/pkg/cell"
	"sigs.k8s.io/yaml"
)

func testMesh() *Mesh {
	return &Mesh{Config: &mesh.MeshConfig{RootNamespace: "istio-system", TrustDomain: "cluster.local"}}
}

// istioObject returns an object called "namespace/name", created age seconds after the epoch, with a spec in YAML.
func istioObject(t testing.TB, k Kind, row string, age int, spec string) *Object {
	t.Helper()
	var into any
	switch k {
	case KindVirtualService:
		into = &networking.VirtualService{}
	case KindDestinationRule:
		into = &networking.DestinationRule{}
	case KindSidecar:
		into = &networking.Sidecar{}
	case KindGateway:
		into = &networking.Gateway{}
	case KindPeerAuthentication:
		into = &security.PeerAuthentication{}
	case KindAuthorizationPolicy:
		into = &security.AuthorizationPolicy{}
	default:
		t.Fatalf("no spec type for kind %s", k)
	}
	if err := yaml.Unmarshal([]byte(spec), into); err != nil {
		t.Fatalf("%s %s: %v", k, row, err)
	}
	ns, name, _ := strings.Cut(row, "/")
	return &Object{
		ObjectKey: ObjectKey{Kind: k, Namespace: ns, Name: name}, Created: time.Unix(int64(age), 0).UTC(), Spec: into,
	}
}

func present(objects ...*Object) []Event {
	var out []Event
	for _, o := range objects {
		out = append(out, Event{Key: o.ObjectKey, Object: o})
	}
	return out
}

// readerOf returns a reader over a PushContext made of objects alone.
func readerOf(t testing.TB, objects ...*Object) *Reader {
	t.Helper()
	b := NewBuilder(DefaultSettings(), testMesh())
	pc, _ := b.Apply(present(objects...), nil)
	return NewReader(pc, nil)
}

func hasKey(keys []cell.Key, table cell.Table, name string) bool {
	for _, k := range keys {
		if k == (cell.Key{Table: table, Name: name}) {
			return true
		}
	}
	return false
}

func rowsOf(list []*VirtualService) string {
	var out []string
	for _, v := range list {
		out = append(out, v.Row())
	}
	return strings.Join(out, " ")
}
