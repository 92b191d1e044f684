package fault

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
	"github.com/mizzen-mesh/mizzen/tests/proxy"
)

// holding is all that a proxy holds: bodies by type and name.
type holding map[string]map[string]string

// neighbour is a proxy that behaves well, on a stream that must last.
type neighbour struct {
	delta bool
	// learned is what it must hold with each variant of the good objects.
	learned [variants]holding

	mu    sync.Mutex // guards the rest
	proxy *proxy.Proxy
	err   error // the end of the stream
}

func goodNode(name string) *corev3.Node {
	md, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": "demo", "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.32.0", "INSTANCE_IPS": "10.1.1.10", "NAME": name,
	})
	if err != nil {
		panic(err) // the table above is wrong
	}
	return &corev3.Node{Id: "sidecar~10.1.1.10~" + name + ".demo~demo.svc.cluster.local", Metadata: md}
}

func dial(t *testing.T, addr string, o ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(addr, append(o, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func startNeighbour(t *testing.T, addr string, delta bool) *neighbour {
	t.Helper()
	name := "state"
	if delta {
		name = "delta"
	}
	n := &neighbour{delta: delta, proxy: proxy.New(proxy.Options{Node: goodNode(name), Delta: delta})}
	n.proxy.Connect()
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(dial(t, addr))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		err := n.run(ctx, client)
		n.mu.Lock()
		defer n.mu.Unlock()
		n.err = errors.Join(errors.New("the neighbour's stream has ended"), err)
	}()
	return n
}

func (n *neighbour) run(ctx context.Context, c discoveryv3.AggregatedDiscoveryServiceClient) error {
	if n.delta {
		s, err := c.DeltaAggregatedResources(ctx)
		if err != nil {
			return err
		}
		return n.talk(func(r *xds.Request) error { return s.Send(proxy.Delta(r)) }, func() (*proxy.Response, error) {
			m, err := s.Recv()
			if err != nil {
				return nil, err
			}
			return proxy.FromDelta(m)
		})
	}
	s, err := c.StreamAggregatedResources(ctx)
	if err != nil {
		return err
	}
	return n.talk(func(r *xds.Request) error { return s.Send(proxy.State(r)) }, func() (*proxy.Response, error) {
		m, err := s.Recv()
		if err != nil {
			return nil, err
		}
		return proxy.FromState(m)
	})
}

func (n *neighbour) talk(send func(*xds.Request) error, receive func() (*proxy.Response, error)) error {
	for {
		if err := n.answer(send); err != nil {
			return err
		}
		r, err := receive()
		if err != nil {
			return err
		}
		n.mu.Lock()
		err = n.proxy.Receive(r)
		n.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (n *neighbour) answer(send func(*xds.Request) error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, url := range n.proxy.Pending() {
		if err := send(n.proxy.Request(url)); err != nil {
			return err
		}
	}
	return nil
}

// held returns what the neighbour holds now, or an error if it waits for something.
func (n *neighbour) held() (holding, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err != nil {
		return nil, n.err
	}
	if waiting, err := n.proxy.Waiting(); err != nil || len(waiting)+len(n.proxy.Cold()) > 0 {
		return nil, fmt.Errorf("waiting for %v and %v: %w", waiting, n.proxy.Cold(), err)
	}
	out := holding{}
	for _, url := range []string{
		translate.ClusterType, translate.EndpointType, translate.ListenerType, translate.RouteType, translate.VirtualHostType,
		translate.NameTableType,
	} {
		out[url] = map[string]string{}
		for name, r := range n.proxy.Held(url) {
			out[url][name] = r.Body
		}
		if url == translate.RouteType || url == translate.EndpointType {
			if got, want := slices.Sorted(maps.Keys(out[url])), n.proxy.Names(url); !slices.Equal(got, want) || len(want) == 0 {
				return nil, fmt.Errorf("%s: has %v, wants %v", url, got, want)
			}
		}
	}
	return out, nil
}

// learn takes what the neighbour holds for what it must hold with a variant, once that has come.
func (n *neighbour) learn(variant int) error {
	h, err := n.held()
	if err != nil {
		return err
	}
	cluster, route, address := mark(variant)
	for text, urls := range map[string][]string{
		cluster: {translate.ClusterType}, route: {translate.RouteType, translate.VirtualHostType}, address: {translate.EndpointType},
	} {
		if !h.contains(text, urls) {
			return fmt.Errorf("no %q in %v", text, urls)
		}
	}
	n.learned[variant] = h
	return nil
}

func (h holding) contains(text string, urls []string) bool {
	for _, url := range urls {
		for _, body := range h[url] {
			if strings.Contains(body, text) {
				return true
			}
		}
	}
	return false
}

// holds says by an error in what the neighbour's configuration differs from the one with a variant.
func (n *neighbour) holds(variant int) error {
	h, err := n.held()
	if err != nil {
		return err
	}
	for url, want := range n.learned[variant] {
		got := h[url]
		for name, body := range want {
			if b, ok := got[name]; !ok || b != body {
				return fmt.Errorf("variant %d, delta %v: %s %q is missing or another (%v)", variant, n.delta, url, name, ok)
			}
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				return fmt.Errorf("variant %d, delta %v: %s %q is too many", variant, n.delta, url, name)
			}
		}
	}
	return nil
}
