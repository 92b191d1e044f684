package xds

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeEngine is a fakeWorld for each client, behind the server's interface.
type fakeEngine struct {
	mu      sync.Mutex
	clients map[*fakeClient]struct{}
	edit    []func(*fakeWorld) // applied to every client's world, in order
	serves  *fakeWorld
}

type fakeClient struct {
	engine *fakeEngine
	world  *fakeWorld
	notify func()
}

func newFakeEngine() *fakeEngine {
	return &fakeEngine{clients: map[*fakeClient]struct{}{}, serves: newFakeWorld()}
}

func (e *fakeEngine) Serves(url string) bool { return e.serves.serves(url) }

func (e *fakeEngine) Attach(p *view.Proxy, notify func()) (Subscriber, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := &fakeClient{engine: e, world: newFakeWorld(), notify: notify}
	for _, f := range e.edit {
		f(c.world)
	}
	c.world.publish()
	e.clients[c] = struct{}{}
	return c, nil
}

// change edits the world of present and future clients and publishes.
func (e *fakeEngine) change(f func(*fakeWorld)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.edit = append(e.edit, f)
	for c := range e.clients {
		f(c.world)
		c.world.publish()
		c.notify()
	}
}

func (e *fakeEngine) set(typ, name, content string) {
	r := fakeResource(fakeTypes[typ], name, content)
	e.change(func(w *fakeWorld) { w.set(fakeTypes[typ], name, r) })
}

func (c *fakeClient) Published() *Published {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	return c.world.current()
}

func (c *fakeClient) Use(url string) {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	c.world.uses[url] = true
	c.notify()
}

func (c *fakeClient) Demand(url string, names Names) {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	c.world.demand[url] = names
	c.notify()
}

func (c *fakeClient) Close() {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	delete(c.engine.clients, c)
}

// rig is a server over a real gRPC connection.
type rig struct {
	t       *testing.T
	engine  *fakeEngine
	server  *Server
	metrics *Metrics
	conn    *grpc.ClientConn
	grpc    *grpc.Server
}

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, engine: newFakeEngine(), metrics: metrics}
	cfg := Config{Publisher: r.engine, Metrics: metrics, Log: slog.New(slog.DiscardHandler), StreamsPerSecond: 1e6}
	if change != nil {
		change(&cfg)
	}
	r.server = NewServer(cfg)
	r.grpc = grpc.NewServer(metrics.ServerOptions(GRPCOptions{})...)
	r.server.Register(r.grpc)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = r.grpc.Serve(l) }()
	r.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.conn.Close(); r.grpc.Stop(); <-done })
	return r
}

func testNode(id string) *corev3.Node {
	return &corev3.Node{Id: "sidecar~10.0.0.1~" + id + "~default.svc.cluster.local", Metadata: &structpb.Struct{
		Fields: map[string]*structpb.Value{"ISTIO_VERSION": structpb.NewStringValue("1.32.0")},
	}}
}

type deltaClient = grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]

func (r *rig) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	r.t.Cleanup(cancel)
	return ctx
}

func (r *rig) delta() deltaClient {
	r.t.Helper()
	c, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.conn).DeltaAggregatedResources(r.context())
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

func (r *rig) ask(c deltaClient, q *discoveryv3.DeltaDiscoveryRequest) *discoveryv3.DeltaDiscoveryResponse {
	r.t.Helper()
	if err := c.Send(q); err != nil {
		r.t.Fatal(err)
	}
	return r.read(c)
}

func (r *rig) read(c deltaClient) *discoveryv3.DeltaDiscoveryResponse {
	r.t.Helper()
	m, err := c.Recv()
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

func (r *rig) send(c deltaClient, q *discoveryv3.DeltaDiscoveryRequest) {
	r.t.Helper()
	if err := c.Send(q); err != nil {
		r.t.Fatal(err)
	}
}

// eventually polls until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		<-tick.C
	}
}

func TestStreamDelta(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.engine.set("cds", "a", "1")
	r.engine.set("eds", "a", "1")
	c := r.delta()
	m := r.ask(c, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.default"), TypeUrl: translate.ClusterType})
	if len(m.Resources) != 1 || m.Resources[0].Name != "a" || !strings.HasPrefix(m.Nonce, m.SystemVersionInfo) {
		t.Fatalf("clusters: %v", m)
	}
	r.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.ClusterType, ResponseNonce: m.Nonce})
	m = r.ask(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.EndpointType, ResourceNamesSubscribe: []string{"a"}})
	if len(m.Resources) != 1 || string(m.Resources[0].Resource.Value) != "a=1" {
		t.Fatalf("endpoints: %v", m)
	}
	r.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.EndpointType, ResponseNonce: m.Nonce})
	r.engine.set("eds", "a", "2")
	if m = r.read(c); len(m.Resources) != 1 || string(m.Resources[0].Resource.Value) != "a=2" {
		t.Fatalf("push: %v", m)
	}
	r.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.EndpointType, ResponseNonce: m.Nonce})
	eventually(t, "synced", func() bool {
		for _, s := range r.server.Connections()[0].Status() {
			if s.Status != "SYNCED" {
				return false
			}
		}
		return true
	})
	if id := r.server.Connections()[0].ID; id != "a.default-1" {
		t.Errorf("connection id %s", id)
	}
	if v := testutil.ToFloat64(r.metrics.connected.WithLabelValues("1.32.0")); v != 1 {
		t.Errorf("pilot_xds = %v", v)
	}
	if err := c.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("after CloseSend: %v", err)
	}
	eventually(t, "the client left", func() bool { return len(r.server.Connections()) == 0 })
	if v := testutil.ToFloat64(r.metrics.connected.WithLabelValues("1.32.0")); v != 0 {
		t.Errorf("pilot_xds = %v after close", v)
	}
}

func TestStreamSotw(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.engine.set("lds", "a", "1")
	c, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.conn).StreamAggregatedResources(r.context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Send(&discoveryv3.DiscoveryRequest{Node: testNode("a.default"), TypeUrl: translate.ListenerType}); err != nil {
		t.Fatal(err)
	}
	m, err := c.Recv()
	if err != nil || len(m.Resources) != 1 || string(m.Resources[0].Value) != "a=1" {
		t.Fatalf("listeners: %v %v", m, err)
	}
	nack := &discoveryv3.DiscoveryRequest{
		TypeUrl: translate.ListenerType, ResponseNonce: m.Nonce,
		ErrorDetail: &rpcstatus.Status{Code: int32(codes.Internal), Message: "Error adding/updating listener(s) a: no\n"},
	}
	if err := c.Send(nack); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the NACK is seen", func() bool { return r.server.Connections()[0].Status()[0].Status == "ERROR" })
	if v := testutil.ToFloat64(r.metrics.reject[translate.ListenerType].WithLabelValues("a.default", "Internal")); v != 1 {
		t.Errorf("pilot_xds_lds_reject = %v", v)
	}
	if v := testutil.ToFloat64(r.metrics.rejects.WithLabelValues("lds")); v != 1 {
		t.Errorf("pilot_total_xds_rejects = %v", v)
	}
	if q := r.server.Connections()[0].Rejections(); len(q) != 1 || q[0].Resource != "a" {
		t.Errorf("rejections: %v", q)
	}
	_ = c.CloseSend()
	if _, err := c.Recv(); status.Code(err) != codes.Unknown && !errors.Is(err, io.EOF) {
		t.Errorf("end: %v", err)
	}
}
