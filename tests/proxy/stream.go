package proxy

import (
	"context"
	"fmt"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// Dial returns a connection to a control plane's plaintext ADS. It takes responses of any size.
func Dial(addr string, more ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+addr, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(256 << 20)),
	}, more...)...)
}

// wire is one ADS stream of either protocol.
type wire struct {
	send    func(*xds.Request) error
	receive func() (*Response, error)
	close   func() error
}

func open(ctx context.Context, conn *grpc.ClientConn, delta bool) (wire, error) {
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	if delta {
		s, err := client.DeltaAggregatedResources(ctx)
		if err != nil {
			return wire{}, err
		}
		return wire{
			send: func(r *xds.Request) error { return s.Send(Delta(r)) }, close: s.CloseSend,
			receive: func() (*Response, error) {
				m, err := s.Recv()
				if err != nil {
					return nil, err
				}
				return FromDelta(m)
			},
		}, nil
	}
	s, err := client.StreamAggregatedResources(ctx)
	if err != nil {
		return wire{}, err
	}
	return wire{
		send: func(r *xds.Request) error { return s.Send(State(r)) }, close: s.CloseSend,
		receive: func() (*Response, error) {
			m, err := s.Recv()
			if err != nil {
				return nil, err
			}
			return FromState(m)
		},
	}, nil
}

// Stream runs a Proxy over a connection, acknowledging everything at once, until the stream ends.
type Stream struct {
	wire wire
	done chan struct{}

	mu        sync.Mutex // guards the rest
	proxy     *Proxy
	responses int
	err       error
}

// Open connects p. The stream ends with ctx, by Close, or when the server ends it.
func Open(ctx context.Context, conn *grpc.ClientConn, p *Proxy) (*Stream, error) {
	w, err := open(ctx, conn, p.opts.Delta)
	if err != nil {
		return nil, fmt.Errorf("opening an ADS stream: %w", err)
	}
	s := &Stream{wire: w, done: make(chan struct{}), proxy: p}
	p.Connect()
	go s.run()
	return s, nil
}

func (s *Stream) run() {
	defer close(s.done)
	err := s.answer(nil)
	for err == nil {
		var r *Response
		if r, err = s.wire.receive(); err == nil {
			err = s.answer(r)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// answer applies a response, if there is one, and sends what is due.
func (s *Stream) answer(r *Response) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r != nil {
		s.responses++
		if err := s.proxy.Receive(r); err != nil {
			return err
		}
	}
	for _, url := range s.proxy.Pending() {
		if err := s.wire.send(s.proxy.Request(url)); err != nil {
			_, err = s.wire.receive() // what ended the stream
			return err
		}
	}
	return nil
}

// Look calls f with the proxy, which f must not keep, while nothing else happens to it.
func (s *Stream) Look(f func(*Proxy) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("the stream has ended: %w", s.err)
	}
	return f(s.proxy)
}

// Responses returns how many responses came.
func (s *Stream) Responses() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.responses
}

// Done is closed when the stream has ended; Err then says by what.
func (s *Stream) Done() <-chan struct{} { return s.done }

// Err returns what ended the stream, nil while it is open. A clean end is io.EOF.
func (s *Stream) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close says that nothing more will be asked, upon which a server ends the stream.
func (s *Stream) Close() error { return s.wire.close() }

// Silent opens a stream, sends requests, and never reads. The stream ends with ctx or the connection.
func Silent(ctx context.Context, conn *grpc.ClientConn, delta bool, requests []*xds.Request) error {
	w, err := open(ctx, conn, delta)
	if err != nil {
		return fmt.Errorf("opening an ADS stream: %w", err)
	}
	for _, r := range requests {
		if err := w.send(r); err != nil {
			return fmt.Errorf("asking for %s: %w", r.TypeURL, err)
		}
	}
	return nil
}

// Say sends a request as it is, whatever the proxy would say now.
func (s *Stream) Say(r *xds.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wire.send(r)
}

// Nonce returns the nonce of the last response of a type.
func (s *Stream) Nonce(url string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.proxy.types[url]; t != nil {
		return t.nonce
	}
	return ""
}
