package xds

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// inboxSize is how many requests may wait for a stream whose client does not read; more wait in the transport, whose
// flow control holds the client back.
const inboxSize = 8

// Connection is one stream in the table of clients.
type Connection struct {
	// ID is "<proxy id>-<number>".
	ID         string
	Proxy      *view.Proxy
	Identities []string
	Address    string
	Connected  time.Time
	Delta      bool
	version    string
	rejected   bool // ever; the stream's own goroutine has it

	mu      sync.Mutex
	session *Session
}

// Status returns the state of each type the client watches.
func (c *Connection) Status() []TypeStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.Status()
}

// Rejections returns the resources that are held back from the client.
func (c *Connection) Rejections() []Rejection {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.Rejections()
}

// stream is the owner of one connection. Its fields belong to the goroutine of the gRPC handler.
type stream struct {
	server *Server
	grpc   grpc.ServerStream
	conn   *Connection
	sub    Subscriber
	inbox  <-chan received
	notify chan struct{}
	timer  *time.Timer
	// pushing is when the change came that is being sent, zero if none is.
	pushing time.Time
	last    *Published
	// logs bounds what one client can make the server log.
	logs *rate.Limiter
}

type received struct {
	request *Request
	err     error
}

func peerAddress(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return hostOf(p.Addr)
	}
	return ""
}

// serve runs one stream until it ends.
func (s *Server) serve(g grpc.ServerStream, delta bool, recv func() (*Request, error)) (err error) {
	defer s.contain(&err)
	ctx := g.Context()
	select {
	case <-s.draining:
		return status.Error(codes.Unavailable, "the server is shutting down")
	default:
	}
	identities, err := s.admit(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	st := &stream{server: s, grpc: g, inbox: s.receive(ctx, recv), notify: make(chan struct{}, 1), logs: rate.NewLimiter(1, 10)}
	first, err := st.first(ctx)
	if first == nil {
		return err
	}
	if err := st.connect(first, delta, identities); err != nil {
		return err
	}
	defer st.sub.Close()
	defer s.remove(st.conn)
	return st.run(ctx, first)
}

// contain turns a panic into the end of this one stream.
func (s *Server) contain(err *error) {
	if p := recover(); p != nil {
		s.cfg.Metrics.panics.Inc()
		s.cfg.Metrics.internal.Inc()
		s.cfg.Log.Error("an xDS stream panicked", "panic", p, "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "internal error")
	}
}

// receive reads requests in a goroutine of its own, which ends with the stream.
func (s *Server) receive(ctx context.Context, recv func() (*Request, error)) <-chan received {
	inbox := make(chan received, inboxSize)
	go func() {
		for {
			r, err := s.receiveOne(recv)
			select {
			case inbox <- received{r, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return inbox
}

func (s *Server) receiveOne(recv func() (*Request, error)) (r *Request, err error) {
	defer s.contain(&err)
	return recv()
}

// first returns the first request that counts; nil when the stream ends before.
func (st *stream) first(ctx context.Context) (*Request, error) {
	for {
		select {
		case in := <-st.inbox:
			if in.err != nil {
				return nil, st.ended(in.err)
			}
			if in.request.TypeURL == HealthType {
				st.server.cfg.Log.Warn("a health report came before the first request and is ignored")
				continue
			}
			return in.request, nil
		case <-st.server.draining:
			return nil, status.Error(codes.Unavailable, "the server is shutting down")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// connect makes the session of the client that the first request names.
func (st *stream) connect(first *Request, delta bool, identities []string) error {
	s := st.server
	if first.Node.GetId() == "" {
		return status.Error(codes.InvalidArgument, errNoNode.Error())
	}
	p, err := view.ParseNode(first.Node, s.cfg.Node)
	if err != nil {
		return err
	}
	p.Delta = delta
	first.Node = nil // the list of extensions is long, and nobody needs it any more
	if s.cfg.Authorize != nil && identities != nil {
		if err := s.cfg.Authorize(p, identities); err != nil {
			return err
		}
	}
	st.conn = &Connection{
		ID: s.connectionID(p), Proxy: p, Identities: identities, Address: peerAddress(st.grpc.Context()), Connected: s.cfg.Now(), Delta: delta,
		version: versionLabel(p.Metadata.GetFields()["ISTIO_VERSION"].GetStringValue()),
		session: NewSession(SessionConfig{
			Delta: delta, ByName: p.Generator == view.GRPC, Serves: s.cfg.Publisher.Serves, Names: s.names, Bodies: s.bodies, Nonce: s.cfg.Nonce, Timing: s.cfg.Timing,
		}),
	}
	st.sub, err = s.cfg.Publisher.Attach(p, func() {
		select {
		case st.notify <- struct{}{}:
		default: // it will look anyway
		}
	})
	if err != nil {
		return status.Error(codes.Unavailable, fmt.Sprintf("attach %s: %v", p.ID, err))
	}
	s.add(st.conn)
	return nil
}

// versionLabel bounds the clients' influence on the size of a metric.
func versionLabel(v string) string {
	if len(v) > 64 || strings.ToValidUTF8(v, "") != v {
		return "invalid"
	}
	return v
}

// run is the loop of the stream: requests and published states in, responses out.
func (st *stream) run(ctx context.Context, first *Request) error {
	st.timer = time.NewTimer(time.Hour)
	defer st.timer.Stop()
	st.push()
	if err := st.request(first); err != nil {
		return err
	}
	for {
		if err := st.send(); err != nil {
			return err
		}
		select {
		case in := <-st.inbox:
			if ended, err := st.requests(in); ended || err != nil {
				return err
			}
		case <-st.notify:
			st.push()
		case <-st.timer.C:
		case <-st.server.draining:
			return status.Error(codes.Unavailable, "the server is shutting down")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// requests takes a request and those that wait behind it: what a client asks in one burst is answered in push order.
func (st *stream) requests(in received) (ended bool, err error) {
	for {
		if in.err != nil {
			return true, st.ended(in.err)
		}
		if err := st.request(in.request); err != nil {
			return true, err
		}
		select {
		case in = <-st.inbox:
		default:
			return false, nil
		}
	}
}

func (st *stream) request(r *Request) error {
	m := st.server.cfg.Metrics
	st.conn.mu.Lock()
	eff := st.conn.session.Request(st.server.cfg.Now(), r)
	st.conn.mu.Unlock()
	if eff.Stale {
		m.expiredNonce.WithLabelValues(shortType(r.TypeURL)).Inc()
	}
	if eff.Rejected {
		st.rejected(r)
	}
	for _, t := range eff.Use {
		st.sub.Use(t)
	}
	for _, d := range eff.Demand {
		st.sub.Demand(d.TypeURL, d.Names)
	}
	return eff.Err
}

func (st *stream) rejected(r *Request) {
	m, code := st.server.cfg.Metrics, codes.Code(r.Error.GetCode()) //nolint:gosec // a wrong code stays a number
	m.rejects.WithLabelValues(shortType(r.TypeURL)).Inc()
	if g := m.reject[r.TypeURL]; g != nil {
		if code > codes.Unauthenticated {
			code = codes.Unknown
		}
		g.WithLabelValues(st.conn.Proxy.ID, code.String()).Set(1)
		st.conn.rejected = true
	}
	if !st.logs.Allow() {
		return
	}
	st.server.cfg.Log.Warn("a proxy rejected a response", "type", shortType(r.TypeURL), "proxy", st.conn.ID, "error", cut(r.Error.GetMessage(), maxErrorText))
}

// push hands the newest published states to the session.
func (st *stream) push() {
	p := st.sub.Published()
	if p == nil {
		return
	}
	now := st.server.cfg.Now()
	if st.last != nil && p.Generation != st.last.Generation && st.pushing.IsZero() {
		st.pushing = now
	}
	st.last = p
	st.conn.mu.Lock()
	defer st.conn.mu.Unlock()
	st.conn.session.Publish(now, p)
}

// send sends what may be sent, and sets the timer for what must wait.
func (st *stream) send() error {
	s := st.server
	for {
		start := s.cfg.Now()
		st.conn.mu.Lock()
		r, wake := st.conn.session.Next(start)
		st.conn.mu.Unlock()
		if r == nil {
			st.idle(start, wake)
			return nil
		}
		short := shortType(r.TypeURL)
		before := s.cfg.Now()
		if err := st.grpc.SendMsg(r); err != nil {
			if code := status.Code(err); code == codes.DeadlineExceeded {
				s.cfg.Metrics.writeTimeout.Inc()
			} else if code != codes.Unavailable && code != codes.Canceled {
				s.cfg.Metrics.pushes.WithLabelValues(short + "_senderr").Inc()
			}
			return fmt.Errorf("send %s to %s: %w", short, st.conn.ID, err)
		}
		after := s.cfg.Now()
		s.cfg.Metrics.pushes.WithLabelValues(short).Inc()
		s.cfg.Metrics.sendTime.Observe(after.Sub(before).Seconds())
		s.cfg.Metrics.pushTime.WithLabelValues(short).Observe(after.Sub(start).Seconds())
		if short != "other" {
			s.cfg.Metrics.configSize.WithLabelValues(r.TypeURL).Observe(float64(r.Size()))
		}
	}
}

func (st *stream) idle(now, wake time.Time) {
	if !st.pushing.IsZero() {
		st.server.cfg.Metrics.convergence.Observe(now.Sub(st.pushing).Seconds())
		st.pushing = time.Time{}
	}
	if wake.IsZero() {
		st.timer.Stop()
		return
	}
	st.timer.Reset(wake.Sub(now))
}

// ended classifies the error that ended the receiving side. It returns nil for a client that just went.
func (st *stream) ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
		return nil
	}
	switch status.Code(err) {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable:
		return err
	}
	st.server.cfg.Metrics.internal.Inc()
	return err
}
