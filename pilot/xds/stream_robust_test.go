package xds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus/testutil"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// end reads until the stream ends and returns its code.
func end(c deltaClient) codes.Code {
	for {
		if _, err := c.Recv(); err != nil {
			if errors.Is(err, io.EOF) {
				return codes.OK
			}
			return status.Code(err)
		}
	}
}

// TestStreamFirstRequest covers acceptance cases 27 and 28.
func TestStreamFirstRequest(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for name, node := range map[string]*corev3.Node{
		"none": nil, "empty id": {}, "three parts": {Id: "sidecar~1.1.1.1~a.b"}, "type": {Id: "debug~1.1.1.1~a.b~b.svc"}, "address": {Id: "sidecar~~a.b~b.svc"},
	} {
		c := r.delta()
		r.send(c, &discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: translate.ClusterType})
		if code := end(c); code != codes.InvalidArgument {
			t.Errorf("%s: %v", name, code)
		}
	}
	c := r.delta()
	r.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: HealthType})
	m := r.ask(c, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.b"), TypeUrl: translate.ClusterType})
	if m.TypeUrl != translate.ClusterType {
		t.Errorf("after a health report: %v", m)
	}
	_ = c.CloseSend()
	if code := end(c); code != codes.OK {
		t.Errorf("end: %v", code)
	}
}

// TestStreamNotReady is acceptance case 32.
func TestStreamNotReady(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Ready = func() bool { return false } })
	c := r.delta()
	if _, err := c.Recv(); status.Code(err) != codes.Unknown || !strings.Contains(err.Error(), notReady) {
		t.Errorf("delta: %v", err)
	}
	s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.conn).StreamAggregatedResources(r.context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), notReady) {
		t.Errorf("state of the world: %v", err)
	}
}

// TestStreamRateLimit is acceptance case 33.
func TestStreamRateLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.StreamsPerSecond = 5 })
	var accepted, refused atomic.Int32
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			c := r.delta()
			// A refused stream may be over before the request is sent; what ended it is what Recv says.
			_ = c.Send(&discoveryv3.DeltaDiscoveryRequest{Node: testNode(fmt.Sprint("p", i, ".b")), TypeUrl: translate.ClusterType})
			_, err := c.Recv()
			switch {
			case err == nil:
				accepted.Add(1)
				_ = c.CloseSend()
			case status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "request rate limit exceeded"):
				refused.Add(1)
			default:
				t.Errorf("stream %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	// one at once, 5 within the second that a stream waits at most; a slow machine spreads the streams over more time
	if a, n := accepted.Load(), refused.Load(); a < 5 || n == 0 || a+n != 12 {
		t.Errorf("%d accepted, %d refused", a, n)
	}
}

// TestStreamBadRequests: wrong nonces, a NACK of a type never watched, unknown types and endless type URLs do no harm to
// others, and a request of more than 4 MiB ends its stream (acceptance 57).
func TestStreamBadRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.engine.set("cds", "a", "1")
	c := r.delta()
	m := r.ask(c, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.b"), TypeUrl: translate.ClusterType})
	r.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.ClusterType, ResponseNonce: "wrong", ResourceNamesSubscribe: []string{"x"}})
	r.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.ListenerType, ResponseNonce: "x", ErrorDetail: &rpcstatus.Status{Code: -7, Message: "no"}})
	r.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.ClusterType, ResponseNonce: m.Nonce})
	if m = r.ask(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: "type.googleapis.com/none.Such"}); len(m.Resources) != 0 || m.TypeUrl != "type.googleapis.com/none.Such" {
		t.Errorf("unknown type: %v", m)
	}
	eventually(t, "the wrong nonce is counted", func() bool {
		return testutil.ToFloat64(r.metrics.expiredNonce.WithLabelValues("cds")) == 1
	})
	r.engine.set("cds", "a", "2")
	if m = r.read(c); len(m.Resources) != 1 {
		t.Errorf("the stream no longer works: %v", m)
	}
	r.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: strings.Repeat("x", maxTypeURL+1)})
	if code := end(c); code != codes.InvalidArgument {
		t.Errorf("long type URL: %v", code)
	}

	large := r.delta()
	names := make([]string, 3000)
	for i := range names {
		names[i] = strings.Repeat("n", 1000) + fmt.Sprint(i)
	}
	r.send(large, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("b.b"), TypeUrl: translate.EndpointType, ResourceNamesSubscribe: names})
	eventually(t, "the large request is seen", func() bool { return testutil.ToFloat64(r.metrics.recvMax) > 3e6 })
	r.send(large, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.EndpointType, ResourceNamesSubscribe: []string{strings.Repeat("n", 4<<20)}})
	if code := end(large); code != codes.ResourceExhausted {
		t.Errorf("more than 4 MiB: %v", code)
	}
	if v := testutil.ToFloat64(r.metrics.recvMax); v > 4<<20 {
		t.Errorf("pilot_xds_recv_max = %v", v)
	}
}

// TestStreamBounds: a client that asks for ever more is cut off.
func TestStreamBounds(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.delta()
	go func() {
		for i := range maxTypes + 1 {
			q := &discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.b"), TypeUrl: fmt.Sprint("type.googleapis.com/t", i)}
			if c.Send(q) != nil {
				return
			}
		}
	}()
	if code := end(c); code != codes.ResourceExhausted {
		t.Errorf("types: %v", code)
	}
	c = r.delta()
	go func() {
		for i := range 100 {
			names := make([]string, 1000)
			for j := range names {
				names[j] = fmt.Sprint(i, "-", j, strings.Repeat("n", 1000))
			}
			q := &discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.b"), TypeUrl: translate.SecretType, ResourceNamesSubscribe: names}
			if c.Send(q) != nil {
				return
			}
		}
	}()
	if code := end(c); code != codes.ResourceExhausted {
		t.Errorf("names: %v", code)
	}
	eventually(t, "their sets are collected", func() bool { runtime.GC(); return r.server.names.len() == 0 })
}

// TestStreamNeverReads: a client that does not read delays nobody, and costs no more however much changes.
func TestStreamNeverReads(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	big := strings.Repeat("x", 1<<20)
	r.engine.set("cds", "big", big)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	lazy, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.conn).DeltaAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.send(lazy, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("lazy.b"), TypeUrl: translate.ClusterType})
	for range 20 { // all that the inbox holds and more
		r.send(lazy, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.ListenerType, ResponseNonce: "x"})
	}
	c := r.delta()
	m := r.ask(c, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.b"), TypeUrl: translate.ClusterType})
	for i := range 50 {
		r.send(c, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.ClusterType, ResponseNonce: m.Nonce})
		r.engine.set("cds", "small", fmt.Sprint(i))
		if m = r.read(c); len(m.Resources) != 1 || string(m.Resources[0].Resource.Value) != fmt.Sprint("small=", i) {
			t.Fatalf("push %d: %v", i, m)
		}
	}
	if n := len(r.server.Connections()); n != 2 {
		t.Errorf("%d connections", n)
	}
	cancel()
	eventually(t, "the lazy client left", func() bool { return len(r.server.Connections()) == 1 })
}

// panicPublisher panics for one client.
type panicPublisher struct{ Publisher }

func (p panicPublisher) Attach(proxy *view.Proxy, notify func()) (Subscriber, error) {
	if proxy.ID == "panic.b" {
		panic("as the test wants")
	}
	return p.Publisher.Attach(proxy, notify)
}

func TestStreamPanic(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(c *Config) { c.Publisher = panicPublisher{c.Publisher} })
	other := r.delta()
	r.ask(other, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.b"), TypeUrl: translate.ClusterType})
	c := r.delta()
	r.send(c, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("panic.b"), TypeUrl: translate.ClusterType})
	if code := end(c); code != codes.Internal {
		t.Errorf("code %v", code)
	}
	if v := testutil.ToFloat64(r.metrics.panics); v != 1 {
		t.Errorf("%v panics counted", v)
	}
	r.ask(other, &discoveryv3.DeltaDiscoveryRequest{TypeUrl: translate.ListenerType})
}

func TestStreamDrain(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.delta()
	r.ask(c, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.b"), TypeUrl: translate.ClusterType})
	r.server.Drain()
	if code := end(c); code != codes.Unavailable {
		t.Errorf("open stream: %v", code)
	}
	if code := end(r.delta()); code != codes.Unavailable {
		t.Errorf("new stream: %v", code)
	}
	r.grpc.GracefulStop()
}

func TestStreamAuthentication(t *testing.T) {
	t.Parallel()
	var fail atomic.Bool
	r := newRig(t, func(c *Config) {
		c.Authenticate = func(context.Context) ([]string, error) {
			if fail.Load() {
				return nil, io.ErrUnexpectedEOF
			}
			return []string{"spiffe://cluster.local/ns/b/sa/x"}, nil
		}
		c.Authorize = func(p *view.Proxy, ids []string) error {
			if p.ID == "a.b" && len(ids) == 1 {
				return nil
			}
			return status.Error(codes.PermissionDenied, "authorization failed")
		}
	})
	c := r.delta()
	r.ask(c, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.b"), TypeUrl: translate.ClusterType})
	denied := r.delta()
	r.send(denied, &discoveryv3.DeltaDiscoveryRequest{Node: testNode("c.b"), TypeUrl: translate.ClusterType})
	if code := end(denied); code != codes.PermissionDenied {
		t.Errorf("other proxy: %v", code)
	}
	fail.Store(true)
	if _, err := r.delta().Recv(); status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), "authentication failure") || strings.Contains(err.Error(), "EOF") {
		t.Errorf("bad credentials: %v", err)
	}
}

// TestStreamChurn: many connects and disconnects leave nothing behind.
func TestStreamChurn(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.engine.set("cds", "a", "1")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 50 {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				c, err := discoveryv3.NewAggregatedDiscoveryServiceClient(r.conn).DeltaAggregatedResources(ctx)
				if err == nil {
					err = c.Send(&discoveryv3.DeltaDiscoveryRequest{Node: testNode("a.b"), TypeUrl: translate.ClusterType})
				}
				if err == nil && i%3 != 0 {
					_, err = c.Recv()
				}
				cancel()
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	eventually(t, "all left", func() bool {
		r.engine.mu.Lock()
		defer r.engine.mu.Unlock()
		return len(r.server.Connections()) == 0 && len(r.engine.clients) == 0
	})
	if v := testutil.ToFloat64(r.metrics.connected.WithLabelValues("1.32.0")); v != 0 {
		t.Errorf("pilot_xds = %v", v)
	}
}
