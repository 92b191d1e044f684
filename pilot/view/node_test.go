package view

import (
	"reflect"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func node(t testing.TB, id, metadata string) *corev3.Node {
	t.Helper()
	n := &corev3.Node{Id: id}
	if metadata != "" {
		n.Metadata = &structpb.Struct{}
		if err := protojson.Unmarshal([]byte(metadata), n.Metadata); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

const goodID = "sidecar~10.0.0.1~pod.ns~ns.svc.cluster.local"

func TestParseNode(t *testing.T) {
	t.Parallel()
	n := node(t, goodID, `{
		"INSTANCE_IPS": "10.0.0.1,fd00::1", "NAMESPACE": "other", "SERVICE_ACCOUNT": "sa", "CLUSTER_ID": "alias", "NETWORK": "n1",
		"REQUESTED_NETWORK_VIEW": "n1,n2", "NODE_NAME": "node1", "LABELS": {"app": "a"}, "STATIC_LABELS": {"b": "c"},
		"ISTIO_VERSION": "1.32.1", "GENERATOR": "grpc", "DNS_CAPTURE": "true", "ENABLE_HBONE": true,
		"POD_PORTS": "[{\"name\":\"http\",\"containerPort\":8080,\"protocol\":\"TCP\"},{\"containerPort\":9}]", "OWN": 1
	}`)
	n.Locality = &corev3.Locality{Region: "r", Zone: "z", SubZone: "s"}
	n.UserAgentName = "envoy"
	p, err := ParseNode(n, NodeDefaults{ClusterAliases: map[string]string{"alias": "real"}})
	if err != nil {
		t.Fatal(err)
	}
	want := &Proxy{
		ID: "pod.ns", NodeID: goodID, Type: Sidecar, IPs: []string{"10.0.0.1", "fd00::1"}, Namespace: "other",
		DNSDomain: "ns.svc.cluster.local", ClusterID: "real", Network: "n1", NetworkView: []string{"n1", "n2"}, NodeName: "node1",
		ServiceAccount: "sa", Labels: map[string]string{"app": "a"}, StaticLabels: map[string]string{"b": "c"}, Locality: "r/z/s",
		Version: [3]int{1, 32, 1}, Generator: "grpc", Profile: IstioProfile, PodPorts: map[string]uint32{"http/TCP": 8080},
		Metadata: n.Metadata, UserAgent: "envoy",
	}
	if !reflect.DeepEqual(p, want) {
		t.Errorf("got  %+v\nwant %+v", p, want)
	}
}

// TestParseNodeErrors includes acceptance case 27.
func TestParseNodeErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, id, metadata, want string }{
		{"no id", "", "", "missing node information"},
		{"three parts", "sidecar~1.1.1.1~a.b", "", "3 parts"},
		{"type", "debug~1.1.1.1~a.b~b.svc", "", "invalid node type"},
		{"address", "sidecar~nowhere~a.b~b.svc", "", "no valid IP address"},
		{"instance and id address", "sidecar~x~a.b~b.svc", `{"INSTANCE_IPS":"10.0.0.1,x"}`, "no valid IP address"},
		{"number for a string", goodID, `{"NAMESPACE": 1}`, "metadata NAMESPACE: want a string, not a number"},
		{"string for labels", goodID, `{"LABELS": "a=b"}`, "metadata LABELS"},
		{"labels of numbers", goodID, `{"LABELS": {"a": 1}}`, "metadata LABELS"},
		{"boolean", goodID, `{"DNS_CAPTURE": "perhaps"}`, "metadata DNS_CAPTURE"},
		{"ports", goodID, `{"POD_PORTS": "[{"}`, "metadata POD_PORTS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := ParseNode(node(t, c.id, c.metadata), NodeDefaults{})
			if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want InvalidArgument with %q", err, c.want)
			}
		})
	}
	if _, err := ParseNode(nil, NodeDefaults{}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("nil node: %v", err)
	}
}

func TestParseNodeZtunnel(t *testing.T) {
	t.Parallel()
	n := node(t, "ztunnel~10.0.0.1~z.istio-system~istio-system.svc.cluster.local", "")
	if _, err := ParseNode(n, NodeDefaults{}); err == nil {
		t.Error("a ztunnel is admitted without ambient")
	}
	p, err := ParseNode(n, NodeDefaults{Ambient: true})
	if err != nil || p.Type != Ztunnel {
		t.Errorf("%v %v", p, err)
	}
}

func TestParseNodeDefaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ id, metadata, namespace, ip string }{
		{goodID, "", "ns", "10.0.0.1"},
		{"sidecar~10.0.0.1~pod~local", "", "", "10.0.0.1"},
		{"sidecar~10.0.0.1~pod~", "", "", "10.0.0.1"},
		{goodID, `{"NAMESPACE": null, "INSTANCE_IPS": "bad,10.0.0.2"}`, "ns", "10.0.0.1"},
		{"router~~gw.ns~ns.svc", `{"INSTANCE_IPS": ["10.0.0.3"]}`, "ns", "10.0.0.3"},
	} {
		p, err := ParseNode(node(t, c.id, c.metadata), NodeDefaults{})
		if err != nil || p.Namespace != c.namespace || p.IPs[0] != c.ip || p.Version != [3]int{65535, 65535, 65535} {
			t.Errorf("%s %s: %+v %v", c.id, c.metadata, p, err)
		}
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for s, want := range map[string][3]int{
		"1.32.0": {1, 32, 0}, "release-1.20": {1, 20, 65535}, "1.6-alpha.abc": {1, 6, 65535}, "65536.65536.65536": {65536, 65536, 65536},
		"": {65535, 65535, 65535}, "unknown": {65535, 65535, 65535}, "0.8": {65535, 65535, 65535},
		"1.99999999999999999999": {65535, 65535, 65535},
	} {
		if got := ParseVersion(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

func TestProfile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names []string
		want  Profile
	}{
		{nil, IstioProfile},
		{[]string{"envoy.filters.http.router"}, StockProfile},
		{[]string{"envoy.filters.http.router", "istio.alpn"}, IstioProfile},
		{[]string{"envoy.filters.network.istio.metadata"}, IstioProfile},
	} {
		n := node(t, goodID, "")
		for _, name := range c.names {
			n.Extensions = append(n.Extensions, &corev3.Extension{Name: name})
		}
		if p, err := ParseNode(n, NodeDefaults{}); err != nil || p.Profile != c.want {
			t.Errorf("%v: %v %v", c.names, p, err)
		}
	}
}

// FuzzParseNode takes any node message: it is refused as invalid or gives a proxy that is complete.
func FuzzParseNode(f *testing.F) {
	for _, n := range []*corev3.Node{
		node(f, goodID, `{"POD_PORTS":"[{\"name\":\"a\",\"containerPort\":1}]","LABELS":{"a":"b"},"DNS_CAPTURE":"true"}`),
		node(f, "ztunnel~~~", `{"INSTANCE_IPS":"::1"}`), node(f, "~~~", `{}`),
	} {
		b, err := proto.Marshal(n)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var n corev3.Node
		if proto.Unmarshal(b, &n) != nil {
			return
		}
		p, err := ParseNode(&n, NodeDefaults{Ambient: true})
		if err != nil {
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("code %v", status.Code(err))
			}
			return
		}
		if len(p.IPs) == 0 || p.Type == "" || p.NodeID != n.Id {
			t.Errorf("incomplete: %+v", p)
		}
	})
}
