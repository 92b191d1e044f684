package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	cluster "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	tcpproxy "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	clusterType  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
)

// loopback is an address of 127.0.0.1; port 0 lets the kernel choose.
func loopback(port int) *core.Address {
	return &core.Address{Address: &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{
		Address: "127.0.0.1", PortSpecifier: &core.SocketAddress_PortValue{PortValue: uint32(port)},
	}}}
}

// forwarding is a listener that forwards TCP to a cluster with one endpoint.
func forwarding(t *testing.T, port int) map[string][]*discovery.Resource {
	t.Helper()
	proxy, err := proto.Marshal(&tcpproxy.TcpProxy{
		StatPrefix: "tcp", ClusterSpecifier: &tcpproxy.TcpProxy_Cluster{Cluster: "backend"},
	})
	if err != nil {
		t.Fatal(err)
	}
	config := resource(t, "", &tcpproxy.TcpProxy{}).GetResource()
	config.Value = proxy
	to := &endpoint.LbEndpoint{HostIdentifier: &endpoint.LbEndpoint_Endpoint{
		Endpoint: &endpoint.Endpoint{Address: loopback(port)},
	}}
	return map[string][]*discovery.Resource{
		clusterType: {resource(t, "backend", &cluster.Cluster{
			Name: "backend", ConnectTimeout: durationpb.New(time.Second),
			ClusterDiscoveryType: &cluster.Cluster_Type{Type: cluster.Cluster_STATIC},
			LoadAssignment: &endpoint.ClusterLoadAssignment{
				ClusterName: "backend", Endpoints: []*endpoint.LocalityLbEndpoints{{LbEndpoints: []*endpoint.LbEndpoint{to}}},
			},
		})},
		listenerType: {resource(t, "front", &listener.Listener{
			Name: "front", Address: loopback(0),
			FilterChains: []*listener.FilterChain{{Filters: []*listener.Filter{{
				Name: "tcp", ConfigType: &listener.Filter_TypedConfig{TypedConfig: config},
			}}}},
		})},
	}
}

func TestEnvoyFollowsItsControlPlane(t *testing.T) {
	t.Parallel()
	backend := NewHTTPBackend(t, HTTPBackendOptions{Name: "v1"})
	client := NewClient(ClientOptions{NewConnections: true})
	for name, protocol := range map[string]XDSProtocol{"delta": DeltaXDS, "state of the world": SotWXDS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stub := &adsStub{resources: forwarding(t, backend.Port())}
			e := NewEnvoy(t, EnvoyOptions{NodeID: "sidecar~1", XDSAddress: serveADS(t, stub), XDSProtocol: protocol})
			serves := func() {
				t.Helper()
				addresses, err := e.Listeners(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				reply, err := client.Get(t.Context(), "http://"+addresses["front"], "a")
				if err != nil || reply.Echo.Backend != "v1" {
					t.Errorf("got %+v, %v; want the backend's answer", reply, err)
				}
			}
			serves()
			if err := e.Restart(t.Context()); err != nil {
				t.Fatal(err)
			}
			serves()
			if err := e.NoRejections(t.Context()); err != nil {
				t.Error(err)
			}
			stub.mu.Lock()
			defer stub.mu.Unlock()
			if !slices.Contains(stub.nodes, "sidecar~1") || len(stub.denied) > 0 {
				t.Errorf("nodes %v, NACKs %v", stub.nodes, stub.denied)
			}
		})
	}
}

func TestEnvoyTellsWhatItRejects(t *testing.T) {
	t.Parallel()
	resources := forwarding(t, 1)
	resources[clusterType] = append(resources[clusterType], resource(t, "bad", &cluster.Cluster{
		Name: "bad", ConnectTimeout: durationpb.New(-time.Second),
	}))
	e := NewEnvoy(t, EnvoyOptions{XDSAddress: serveADS(t, &adsStub{resources: resources})})
	rejected, err := e.Rejections(t.Context())
	if err != nil || rejected["cluster_manager.cds.update_rejected"] != 1 || len(rejected) != 1 {
		t.Errorf("got %v, %v; want one rejection by CDS", rejected, err)
	}
	if err := e.NoRejections(t.Context()); err == nil || !strings.Contains(err.Error(), "seconds: -1") {
		t.Errorf("got %v, want the reason", err)
	}
}

func TestEnvoyTakesMoreBootstrap(t *testing.T) {
	t.Parallel()
	e := NewEnvoy(t, EnvoyOptions{
		Metadata: map[string]any{"NAMESPACE": "default"},
		Bootstrap: `
static_resources:
  clusters: [{name: extra, type: STATIC, connect_timeout: 1s}]
node: {locality: {zone: z1}}
`,
	})
	dump, err := e.ConfigDump(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(dump)
	for _, want := range []string{"NAMESPACE:default", "name:extra", "zone:z1"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not in force", want)
		}
	}
	if n, err := e.Stat(t.Context(), "cluster_manager.active_clusters"); err != nil || n != 1 {
		t.Errorf("got %d active clusters, %v", n, err)
	}
}

func TestEnvoyThatCannotStartSaysWhy(t *testing.T) {
	t.Parallel()
	NeedTool(t, EnvoyTool)
	e, err := StartEnvoy(t.Context(), EnvoyOptions{Bootstrap: "no_such_field: 1"})
	if err == nil || !strings.Contains(err.Error(), "no_such_field") {
		t.Errorf("got %v, %v; want an error that quotes Envoy", e, err)
	}
}

func TestEnvoyServesAdminBeforeItIsConfigured(t *testing.T) {
	t.Parallel()
	// Nobody listens there, so the first configuration does not come.
	e := NewEnvoy(t, EnvoyOptions{XDSAddress: NewPort(t).Address(), ServingOnly: true})
	if err := e.Ready(t.Context()); err == nil {
		t.Error("an Envoy without configuration calls itself ready")
	}
	Eventually(t, time.Minute, func(ctx context.Context) error {
		failed, err := e.Stat(ctx, "cluster.xds-grpc.upstream_cx_connect_fail")
		if err == nil && failed == 0 {
			err = errSaid("no attempt to connect")
		}
		return err
	})
	if err := e.Stop(); err != nil {
		t.Error(err)
	}
	if e.Exited() == nil {
		t.Error("a stopped Envoy runs")
	}
}
