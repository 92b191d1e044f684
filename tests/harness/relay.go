package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// typeURLField is the number of type_url in DiscoveryResponse and in DeltaDiscoveryResponse.
const typeURLField protowire.Number = 4

// RelayOptions says where a Relay leads and what it holds back.
type RelayOptions struct {
	Target string // host:port of the control plane's plaintext gRPC
	// Delay is how long a response of a type is held back; nil holds back nothing. Responses of one type stay in order,
	// those of others overtake, as if the server had been late to make them.
	Delay func(typeURL string) time.Duration
}

// Relay stands between a client and a control plane and passes gRPC messages on, unread but for the type of responses
// and byte for byte. It makes a network or server that is late with one type of resource, which nobody can order from
// a real one.
type Relay struct {
	opts    RelayOptions // fixed at construction, as the next three
	address string
	server  *grpc.Server
	client  *grpc.ClientConn
	delayed atomic.Int64
}

// StartRelay starts a relay on a loopback port.
func StartRelay(opts RelayOptions) (*Relay, error) {
	client, err := grpc.NewClient("passthrough:///"+opts.Target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{}), grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		return nil, fmt.Errorf("starting a relay to %s: %w", opts.Target, err)
	}
	listener, err := listen("")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting a relay to %s: %w", opts.Target, err), client.Close())
	}
	r := &Relay{opts: opts, address: listener.Addr().String(), client: client}
	r.server = grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(r.serve),
		grpc.MaxRecvMsgSize(1<<30), grpc.MaxSendMsgSize(1<<30),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}))
	go func(l net.Listener) { _ = r.server.Serve(l) }(listener)
	return r, nil
}

// NewRelay starts a relay that lives as long as the test.
func NewRelay(t testing.TB, opts RelayOptions) *Relay {
	t.Helper()
	r, err := StartRelay(opts)
	must(t, err)
	t.Cleanup(r.Close)
	return r
}

// Address is host:port.
func (r *Relay) Address() string { return r.address }

// Delayed counts the responses that were held back until they were due.
func (r *Relay) Delayed() int64 { return r.delayed.Load() }

// Close ends the streams at once.
func (r *Relay) Close() {
	r.server.Stop()
	_ = r.client.Close()
}

// serve relays one stream until either side ends it.
func (r *Relay) serve(_ any, down grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(down)
	if !ok {
		return status.Error(codes.Internal, "a stream without a method")
	}
	ctx, cancel := context.WithCancel(down.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md.Copy())
	}
	up, err := r.client.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	go requests(down, up, cancel)
	return r.responses(ctx, up, down)
}

// requests passes on what the client says. A client that breaks off ends the stream to the server too.
func requests(down grpc.ServerStream, up grpc.ClientStream, cancel func()) {
	for {
		var m []byte
		switch err := down.RecvMsg(&m); {
		case errors.Is(err, io.EOF):
			_ = up.CloseSend() // its error shows in what comes back
			return
		case err != nil:
			cancel()
			return
		}
		if up.SendMsg(&m) != nil {
			return // the end shows in what comes back
		}
	}
}

// heldBack is a response and when it goes on.
type heldBack struct {
	body []byte
	due  time.Time
}

// responses passes on what the server says: what is not held back at once, the rest by a queue for each type.
func (r *Relay) responses(ctx context.Context, up grpc.ClientStream, down grpc.ServerStream) error {
	out := make(chan []byte)
	ended := make(chan error, 1)
	go func() {
		queues := map[string]chan<- heldBack{}
		for {
			var m []byte
			if err := up.RecvMsg(&m); err != nil {
				ended <- err
				return
			}
			url := typeURLOf(m)
			d := r.delay(url)
			if d == 0 && queues[url] == nil {
				if !offer(ctx, out, m) {
					return
				}
				continue
			}
			if queues[url] == nil {
				q := make(chan heldBack, 1024)
				queues[url] = q
				go r.release(ctx, q, out)
			}
			if !offer(ctx, queues[url], heldBack{m, time.Now().Add(d)}) {
				return
			}
		}
	}()
	for {
		select {
		case m := <-out:
			if err := down.SendMsg(&m); err != nil {
				return err
			}
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Relay) delay(typeURL string) time.Duration {
	if r.opts.Delay == nil {
		return 0
	}
	return r.opts.Delay(typeURL)
}

// release passes on the responses of one type when they are due.
func (r *Relay) release(ctx context.Context, q <-chan heldBack, out chan<- []byte) {
	for {
		select {
		case h := <-q:
			if pause(ctx, time.Until(h.due)) != nil {
				return
			}
			// before it is passed on: who has received it may ask at once
			r.delayed.Add(1)
			if !offer(ctx, out, h.body) {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// offer sends unless ctx ends before.
func offer[T any](ctx context.Context, c chan<- T, v T) bool {
	select {
	case c <- v:
		return true
	case <-ctx.Done():
		return false
	}
}

// typeURLOf returns the type_url of a response, empty if there is none.
func typeURLOf(m []byte) string {
	for len(m) > 0 {
		number, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return ""
		}
		m = m[n:]
		if number == typeURLField && kind == protowire.BytesType {
			v, n := protowire.ConsumeString(m)
			if n < 0 {
				return ""
			}
			return v
		}
		if n = protowire.ConsumeFieldValue(number, kind, m); n < 0 {
			return ""
		}
		m = m[n:]
	}
	return ""
}

// rawCodec takes messages for bytes.
type rawCodec struct{}

// Name is that of the codec whose bytes pass through.
func (rawCodec) Name() string { return "proto" }

func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("a relay sends bytes, not %T", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(*m)}, nil
}

func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a relay receives bytes, not %T", v)
	}
	*m = data.Materialize()
	return nil
}
