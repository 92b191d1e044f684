package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"google.golang.org/grpc"
	"google.golang.org/grpc/reflection"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/jwks"
	"github.com/mizzen-mesh/mizzen/pilot/status"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// Options are what a control plane is started with. Addresses are "host:port"; an empty one switches that port off.
type Options struct {
	Log      *slog.Logger
	Settings *model.Settings
	// Mesh is the mesh configuration until MeshSource gives another.
	Mesh *model.Mesh
	// MeshSource, if set, delivers the mesh configuration, and what is wrong with its inputs, until its context ends. The
	// server is not ready before the first delivery.
	MeshSource func(ctx context.Context, deliver func(*model.Mesh, []source.Problem)) error
	Sources    []source.Source
	// Addresses, if set, writes the addresses of ServiceEntries to the cluster of one of the sources. See NewAddressWriter.
	Addresses *status.Addresses

	GRPCAddr, HTTPAddr, MonitoringAddr string
	Profile                            bool // serve /debug/pprof

	GRPC             xds.GRPCOptions
	ShutdownDuration time.Duration // 10 s
	Version          string
	// Slots, if set, changes what is generated: tests make resources with it that no input can make.
	Slots func([]*translate.Slot) []*translate.Slot
}

// Server is a control plane that is running.
type Server struct {
	opts     Options
	log      *slog.Logger
	registry *prometheus.Registry
	engine   *xds.Engine
	loop     *Loop
	ads      *xds.Server
	grpc     *grpc.Server
	http     []*http.Server
	stop     context.CancelFunc
	wait     sync.WaitGroup
	failed   chan error

	// GRPC, HTTP and Monitoring are the addresses in use, nil where a port is off.
	GRPC, HTTP, Monitoring net.Addr
}

// Start starts a control plane. HTTP answers at once; ADS is served when every source has synced.
func Start(ctx context.Context, o Options) (*Server, error) {
	o.defaults()
	s := &Server{opts: o, log: o.Log, registry: prometheus.NewRegistry(), failed: make(chan error, 8)}
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	names := make([]string, len(o.Sources))
	for i, src := range o.Sources {
		names[i] = src.Name()
	}
	if o.MeshSource != nil {
		names = append(names, meshSourceName)
	}
	names = append(names, jwks.Name)
	keys, err := newFetcher(&o, s.registry)
	if err != nil {
		return nil, err
	}
	s.engine = NewEngine(o.Log, o.Slots)
	s.registry.MustRegister(newSizes(s.engine))
	builder := model.NewBuilder(o.Settings, o.Mesh)
	s.loop = NewLoop(o.Log, builder, s.engine, NewMetrics(s.registry), debounceOf(o.Settings), names...)
	metrics, err := xds.NewMetrics(s.registry)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	s.ads = xds.NewServer(xds.Config{
		Publisher: s.engine.Publisher(), Metrics: metrics, Log: o.Log, Node: view.NodeDefaults{},
		Ready: s.loop.Ready, StreamsPerSecond: o.Settings.RequestsPerSecond,
	})
	s.grpc = grpc.NewServer(metrics.ServerOptions(o.GRPC)...)
	s.ads.Register(s.grpc)
	reflection.Register(s.grpc)

	ctx, s.stop = context.WithCancel(ctx)
	if err := s.listen(ctx); err != nil {
		s.stop()
		return nil, err
	}
	s.run(func() { s.engine.Run(ctx.Done()) })
	s.run(func() { s.loop.Run(ctx) })
	s.run(func() { s.ads.Run(ctx) })
	s.runSources(ctx, keys)
	if o.MeshSource != nil {
		s.run(func() {
			if err := o.MeshSource(ctx, s.takeMesh); err != nil && ctx.Err() == nil {
				s.failed <- fmt.Errorf("mesh configuration: %w", err)
			}
		})
	}
	return s, nil
}

// runSources runs what delivers objects, the fetcher of keys that they name, and what writes to their statuses.
func (s *Server) runSources(ctx context.Context, keys *jwks.Fetcher) {
	tap := newTap(s.loop, keys, s.opts.Addresses, len(s.opts.Sources))
	if w := s.opts.Addresses; w != nil {
		s.run(func() {
			w.Run(ctx, func(p []source.Problem) { s.loop.Problems(status.AddressesName, p) })
		})
	}
	s.run(func() {
		if err := keys.Run(ctx, s.loop); err != nil && ctx.Err() == nil {
			s.failed <- fmt.Errorf("fetching keys: %w", err)
		}
	})
	for _, src := range s.opts.Sources {
		s.run(func() {
			if err := src.Run(ctx, tap); err != nil && ctx.Err() == nil {
				s.failed <- fmt.Errorf("source %s: %w", src.Name(), err)
			}
		})
	}
}

// meshSourceName is what the mesh configuration's inputs are called among the sources.
const meshSourceName = "meshconfig"

func (s *Server) takeMesh(m *model.Mesh, problems []source.Problem) {
	s.loop.Problems(meshSourceName, problems)
	s.loop.Mesh(m)
	s.loop.Synced(meshSourceName)
}

func (o *Options) defaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.ShutdownDuration == 0 {
		o.ShutdownDuration = 10 * time.Second
	}
}

// debounceOf returns the rule that the settings ask for; a time of 0 means the default.
func debounceOf(s *model.Settings) Debounce {
	usual := model.DefaultSettings()
	return NewDebounce(cmp.Or(s.DebounceAfter, usual.DebounceAfter), cmp.Or(s.DebounceMax, usual.DebounceMax))
}

func (s *Server) run(f func()) {
	s.wait.Add(1)
	go func() {
		defer s.wait.Done()
		f()
	}()
}

// listen opens the ports. ADS starts to accept only when the server is ready, so that a client never waits in vain.
func (s *Server) listen(ctx context.Context) error {
	mux := s.handler()
	for _, p := range []struct {
		addr string
		got  *net.Addr
	}{{s.opts.HTTPAddr, &s.HTTP}, {s.opts.MonitoringAddr, &s.Monitoring}} {
		if p.addr == "" {
			continue
		}
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			return fmt.Errorf("listen on %s: %w", p.addr, err)
		}
		*p.got = l.Addr()
		h := &http.Server{Handler: mux, ReadTimeout: 30 * time.Second, IdleTimeout: 90 * time.Second}
		s.http = append(s.http, h)
		s.run(func() {
			if err := h.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				s.failed <- fmt.Errorf("serve HTTP on %s: %w", p.addr, err)
			}
		})
	}
	if s.opts.GRPCAddr == "" {
		return nil
	}
	l, err := net.Listen("tcp", s.opts.GRPCAddr)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.opts.GRPCAddr, err)
	}
	s.GRPC = l.Addr()
	s.run(func() { s.serveGRPC(ctx, l) })
	return nil
}

func (s *Server) serveGRPC(ctx context.Context, l net.Listener) {
	select {
	case <-s.loop.Started():
	case <-ctx.Done():
		if err := l.Close(); err != nil {
			s.log.Debug("closing the xDS port", "error", err)
		}
		return
	}
	if err := s.grpc.Serve(l); err != nil && ctx.Err() == nil {
		s.failed <- fmt.Errorf("serve xDS on %s: %w", s.opts.GRPCAddr, err)
	}
}

// Ready tells whether proxies are served.
func (s *Server) Ready() bool { return s.loop.Ready() }

// Started returns a channel that is closed when proxies are served.
func (s *Server) Started() <-chan struct{} { return s.loop.Started() }

// Generation returns the generation of the PushContext committed last, 0 before the first.
func (s *Server) Generation() uint64 {
	if pc := s.loop.Current(); pc != nil {
		return pc.Generation
	}
	return 0
}

// Failed delivers errors that end the process: a source or a port that can never work.
func (s *Server) Failed() <-chan error { return s.failed }

// Stop ends the streams, gives HTTP requests the shutdown time, and returns when every goroutine has ended.
func (s *Server) Stop() {
	s.ads.Drain()
	stopped := make(chan struct{})
	go func() { s.grpc.GracefulStop(); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(s.opts.ShutdownDuration):
		s.grpc.Stop()
		<-stopped
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.opts.ShutdownDuration)
	defer cancel()
	for _, h := range s.http {
		if err := h.Shutdown(ctx); err != nil {
			s.log.Warn("HTTP requests were cut off", "error", err)
		}
	}
	s.stop()
	s.wait.Wait()
}
