package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// change is what a phase waits for: a text in a resource of a type, or a name removed.
type change struct {
	typeURL, removed string
	text             []byte
	start            time.Time

	mu   sync.Mutex
	seen map[int]time.Duration
}

// fleet is all clients with their common counters.
type fleet struct {
	clients                     []*client
	bytes, responses, resources atomic.Int64
	last                        atomic.Int64 // unix nanoseconds of the last response
	change                      atomic.Pointer[change]
	needs                       sync.Map // version and name of a resource -> []string it needs
	failed                      atomic.Pointer[error]
}

// client subscribes as a sidecar does.
type client struct {
	fleet  *fleet
	id     int
	node   *corev3.Node
	stream grpc.BidiStreamingClient[discoveryv3.DeltaDiscoveryRequest, discoveryv3.DeltaDiscoveryResponse]
	asked  map[string]map[string]bool
	got    map[string]bool
	synced chan struct{}
}

func newClient(f *fleet, o options, id int) (*client, error) {
	ns := namespaceOf(o, id)
	md, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": ns, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": "1.32.0", "SERVICE_ACCOUNT": "default", "MESH_ID": "cluster.local",
		"INSTANCE_IPS": podIP(id * o.Pods), "NAME": fmt.Sprintf("svc-%d-0", id), "INTERCEPTION_MODE": "REDIRECT",
		"LABELS": map[string]any{"app": fmt.Sprintf("svc-%d", id), "version": "v1", "security.istio.io/tlsMode": "istio"},
	})
	if err != nil {
		return nil, err
	}
	return &client{
		fleet: f, id: id, synced: make(chan struct{}), got: map[string]bool{},
		asked: map[string]map[string]bool{translate.EndpointType: {}, translate.RouteType: {}},
		node:  &corev3.Node{Id: fmt.Sprintf("sidecar~%s~svc-%d-0.%s~%s.svc.cluster.local", podIP(id*o.Pods), id, ns, ns), Metadata: md},
	}, nil
}

func (c *client) run(ctx context.Context, addr string) error {
	conn, err := grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256<<20)), grpc.WithInitialWindowSize(1<<20), grpc.WithInitialConnWindowSize(1<<20))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	c.stream, err = discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx)
	if err != nil {
		return err
	}
	if err := c.stream.Send(&discoveryv3.DeltaDiscoveryRequest{Node: c.node, TypeUrl: translate.ClusterType}); err != nil {
		return err
	}
	if err := c.send(translate.ListenerType, "", nil); err != nil {
		return err
	}
	for {
		r, err := c.stream.Recv()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := c.take(r); err != nil {
			return err
		}
	}
}

func (c *client) send(typeURL, nonce string, names []string) error {
	return c.stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: typeURL, ResponseNonce: nonce, ResourceNamesSubscribe: names})
}

func (c *client) take(r *discoveryv3.DeltaDiscoveryResponse) error {
	now := time.Now()
	f := c.fleet
	f.responses.Add(1)
	f.resources.Add(int64(len(r.Resources)))
	f.bytes.Add(int64(proto.Size(r)))
	f.last.Store(now.UnixNano())
	c.check(r, now)
	if err := c.send(r.TypeUrl, r.Nonce, nil); err != nil {
		return err
	}
	child := map[string]string{translate.ClusterType: translate.EndpointType, translate.ListenerType: translate.RouteType}[r.TypeUrl]
	if child != "" {
		var add []string
		for _, res := range r.Resources {
			for _, n := range f.needed(r.TypeUrl, res) {
				if !c.asked[child][n] {
					c.asked[child][n] = true
					add = append(add, n)
				}
			}
		}
		if len(add) > 0 {
			if err := c.send(child, "", add); err != nil {
				return err
			}
		}
	}
	if !c.got[r.TypeUrl] {
		c.got[r.TypeUrl] = true
		if len(c.got) == 4 {
			close(c.synced)
		}
	}
	return nil
}

func (c *client) check(r *discoveryv3.DeltaDiscoveryResponse, now time.Time) {
	w := c.fleet.change.Load()
	if w == nil || w.typeURL != r.TypeUrl {
		return
	}
	hit := false
	for _, res := range r.Resources {
		hit = hit || len(w.text) > 0 && bytes.Contains(res.Resource.GetValue(), w.text)
	}
	for _, n := range r.RemovedResources {
		hit = hit || w.removed != "" && n == w.removed
	}
	if !hit {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.seen[c.id]; !ok {
		w.seen[c.id] = now.Sub(w.start)
	}
}

// needed returns the names that a resource makes an Envoy ask for.
func (f *fleet) needed(typeURL string, r *discoveryv3.Resource) []string {
	key := typeURL + r.Name + "@" + r.Version
	if v, ok := f.needs.Load(key); ok {
		return v.([]string)
	}
	var out []string
	switch typeURL {
	case translate.ClusterType:
		c := &clusterv3.Cluster{}
		if proto.Unmarshal(r.Resource.Value, c) == nil && c.GetType() == clusterv3.Cluster_EDS {
			out = []string{c.Name}
		}
	case translate.ListenerType:
		l := &listenerv3.Listener{}
		if proto.Unmarshal(r.Resource.Value, l) == nil {
			out = routesOf(l)
		}
	}
	f.needs.Store(key, out)
	return out
}

func routesOf(l *listenerv3.Listener) []string {
	var out []string
	chains := l.FilterChains
	if l.DefaultFilterChain != nil {
		chains = append(chains, l.DefaultFilterChain)
	}
	for _, fc := range chains {
		for _, f := range fc.Filters {
			h := &hcmv3.HttpConnectionManager{}
			if f.GetTypedConfig().MessageIs(h) && f.GetTypedConfig().UnmarshalTo(h) == nil && h.GetRds() != nil {
				out = append(out, h.GetRds().RouteConfigName)
			}
		}
	}
	return out
}
