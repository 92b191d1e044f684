package xds

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// Publisher is what the server needs of an engine.
type Publisher interface {
	// Serves tells whether there are resources of a type.
	Serves(typeURL string) bool
	// Attach adds a client. notify is called when Published may give something new; it is quick.
	Attach(p *view.Proxy, notify func()) (Subscriber, error)
}

// Subscriber is a session's handle on the engine; see Client.
type Subscriber interface {
	Published() *Published
	Use(typeURL string)
	Demand(typeURL string, names Names)
	Close()
}

// Publisher returns the engine as the server wants it.
func (e *Engine) Publisher() Publisher { return enginePublisher{e} }

type enginePublisher struct{ e *Engine }

func (p enginePublisher) Attach(proxy *view.Proxy, notify func()) (Subscriber, error) {
	c, err := p.e.Attach(proxy, notify)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (p enginePublisher) Serves(typeURL string) bool {
	for _, s := range p.e.slots {
		if s.TypeURL == typeURL {
			return true
		}
	}
	return false
}

// Config is what a Server is made with. Publisher, Metrics and Log are needed.
type Config struct {
	Publisher Publisher
	Metrics   *Metrics
	Log       *slog.Logger
	Node      view.NodeDefaults
	// Ready tells whether proxies may be served; nil means always.
	Ready func() bool
	// StreamsPerSecond limits new streams; 0 means 15 + 5 for each processor, 100 at most.
	StreamsPerSecond float64
	// Authenticate returns the identities of a stream's peer; nil identities mean that none are needed. Any error ends
	// the stream as "authentication failure". Nil authenticates nobody.
	Authenticate func(context.Context) (identities []string, err error)
	// Authorize decides whether identities may act as the proxy; its error ends the stream.
	Authorize func(p *view.Proxy, identities []string) error
	Timing    Timing
	// Now is the clock and Nonce the source of random nonces; nil means the real ones.
	Now   func() time.Time
	Nonce func() string
}

// Server is the aggregated discovery service, in both protocols.
type Server struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer

	cfg      Config
	limiter  *rate.Limiter
	names    *NameSets
	bodies   *Bodies
	serial   atomic.Uint64
	draining chan struct{}
	drain    sync.Once

	mu       sync.Mutex
	conns    map[string]*Connection
	versions map[string]int // connections by version label
	proxies  map[string]int // connections by proxy id
}

// NewServer returns a server. Register it with a grpc.Server that was made with ServerOptions.
func NewServer(cfg Config) *Server {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Nonce == nil {
		cfg.Nonce = randomNonce
	}
	if cfg.Ready == nil {
		cfg.Ready = func() bool { return true }
	}
	if cfg.Timing == (Timing{}) {
		cfg.Timing = DefaultTiming()
	}
	if cfg.StreamsPerSecond <= 0 {
		cfg.StreamsPerSecond = min(15+5*float64(runtime.GOMAXPROCS(0)), 100)
	}
	return &Server{
		cfg: cfg, limiter: rate.NewLimiter(rate.Limit(cfg.StreamsPerSecond), 1), names: NewNameSets(), bodies: NewBodies(),
		draining: make(chan struct{}), conns: map[string]*Connection{}, versions: map[string]int{}, proxies: map[string]int{},
	}
}

// Register registers the service.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(r, s)
}

// Run forgets, until ctx ends, what sessions shared and nobody used lately.
func (s *Server) Run(ctx context.Context) {
	tick := time.NewTicker(bodiesIdle / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			s.bodies.Sweep(s.cfg.Now())
		case <-ctx.Done():
			return
		}
	}
}

// Drain asks every stream to end, and refuses new ones. Clients reconnect to another replica.
func (s *Server) Drain() { s.drain.Do(func() { close(s.draining) }) }

// randomNonce returns a random UUID.
func randomNonce() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	h := hex.EncodeToString(b[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// StreamAggregatedResources implements the state of the world.
func (s *Server) StreamAggregatedResources(g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if !s.cfg.Ready() {
		return status.Error(codes.Unavailable, notReady)
	}
	return s.serve(g, false, func() (*Request, error) {
		m, err := g.Recv()
		if err != nil {
			return nil, err
		}
		return &Request{
			TypeURL: m.TypeUrl, Node: m.Node, Version: m.VersionInfo, Nonce: m.ResponseNonce, Names: m.ResourceNames, Error: m.ErrorDetail,
		}, nil
	})
}

const notReady = "server is not ready to serve discovery information"

// DeltaAggregatedResources implements the incremental protocol.
func (s *Server) DeltaAggregatedResources(g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	if !s.cfg.Ready() {
		return errors.New(notReady) // code Unknown, as clients of istiod know it: ztunnel tries again at once
	}
	return s.serve(g, true, func() (*Request, error) {
		m, err := g.Recv()
		if err != nil {
			return nil, err
		}
		return &Request{
			TypeURL: m.TypeUrl, Node: m.Node, Nonce: m.ResponseNonce, Error: m.ErrorDetail,
			Subscribe: m.ResourceNamesSubscribe, Unsubscribe: m.ResourceNamesUnsubscribe, Initial: m.InitialResourceVersions,
		}, nil
	})
}

// admit waits for the rate limit and authenticates.
func (s *Server) admit(ctx context.Context) (identities []string, err error) {
	wait, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := s.limiter.Wait(wait); err != nil {
		return nil, status.Error(codes.ResourceExhausted, "request rate limit exceeded")
	}
	if s.cfg.Authenticate == nil {
		return nil, nil
	}
	identities, err = s.cfg.Authenticate(ctx)
	if err != nil {
		s.cfg.Log.Warn("authentication of an xDS stream failed", "peer", peerAddress(ctx), "error", err)
		return nil, status.Error(codes.Unauthenticated, "authentication failure")
	}
	return identities, nil
}

func (s *Server) add(c *Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c.ID] = c
	s.proxies[c.Proxy.ID]++
	s.versions[c.version]++
	s.cfg.Metrics.connected.WithLabelValues(c.version).Set(float64(s.versions[c.version]))
}

func (s *Server) remove(c *Connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c.ID)
	if s.versions[c.version]--; s.versions[c.version] == 0 {
		delete(s.versions, c.version)
		s.cfg.Metrics.connected.DeleteLabelValues(c.version) // versions and ids are the clients' to choose: no series outlives them
	} else {
		s.cfg.Metrics.connected.WithLabelValues(c.version).Set(float64(s.versions[c.version]))
	}
	if s.proxies[c.Proxy.ID]--; s.proxies[c.Proxy.ID] > 0 {
		return
	}
	delete(s.proxies, c.Proxy.ID)
	if c.rejected {
		for _, g := range s.cfg.Metrics.reject {
			g.DeletePartialMatch(prometheus.Labels{"node": c.Proxy.ID})
		}
	}
}

// Connections returns the clients that are connected, in no order.
func (s *Server) Connections() []*Connection {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*Connection, 0, len(s.conns))
	for _, c := range s.conns {
		out = append(out, c)
	}
	return out
}

func (s *Server) connectionID(p *view.Proxy) string {
	return fmt.Sprintf("%s-%d", p.ID, s.serial.Add(1))
}

// GRPCOptions are the settings of a gRPC server; zero fields have istiod's defaults.
type GRPCOptions struct {
	MaxStreams       uint32        // 100,000
	MaxReceive       int           // 4 MiB
	Keepalive        time.Duration // 30 s
	KeepaliveTimeout time.Duration // 10 s
	MaxAge           time.Duration // for ever
}

// ServerOptions returns the options of a gRPC server that carries a Server.
func (m *Metrics) ServerOptions(o GRPCOptions) []grpc.ServerOption {
	if o.MaxStreams == 0 {
		o.MaxStreams = 100_000
	}
	if o.MaxReceive == 0 {
		o.MaxReceive = 4 << 20
	}
	if o.Keepalive == 0 {
		o.Keepalive = 30 * time.Second
	}
	if o.KeepaliveTimeout == 0 {
		o.KeepaliveTimeout = 10 * time.Second
	}
	params := keepalive.ServerParameters{
		Time: o.Keepalive, Timeout: o.KeepaliveTimeout, MaxConnectionAge: o.MaxAge, MaxConnectionAgeGrace: 10 * time.Second,
	}
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(NewCodec()),
		grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.MaxRecvMsgSize(o.MaxReceive),
		grpc.KeepaliveParams(params),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: o.Keepalive / 2, PermitWithoutStream: true}),
		grpc.StatsHandler(&recvMax{gauge: m.recvMax.Set}),
		// Idle connections would hold larger buffers: proxies ask little after their first minute.
		grpc.ReadBufferSize(4 << 10),
		// A request that names some thousand endpoints has about 100 KiB; the pool that is the default gives it 1 MiB.
		experimental.BufferPool(mem.NewTieredBufferPool(256, 4<<10, 16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 1<<20)),
	}
}

// recvMax is a stats handler that keeps the size of the largest message received.
type recvMax struct {
	largest atomic.Int64
	gauge   func(float64)
}

func (r *recvMax) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (r *recvMax) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (r *recvMax) HandleConn(context.Context, stats.ConnStats)                       {}

// HandleRPC implements stats.Handler.
func (r *recvMax) HandleRPC(_ context.Context, s stats.RPCStats) {
	in, ok := s.(*stats.InPayload)
	if !ok {
		return
	}
	for {
		was := r.largest.Load()
		if int64(in.Length) <= was {
			return
		}
		if r.largest.CompareAndSwap(was, int64(in.Length)) {
			r.gauge(float64(in.Length))
			return
		}
	}
}

func hostOf(a net.Addr) string {
	if a == nil {
		return ""
	}
	return a.String()
}
