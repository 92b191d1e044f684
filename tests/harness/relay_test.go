package harness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// burst answers the first request with responses of the types named in it, then ends when the client does.
type burst struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
}

func (burst) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	for i, url := range r.GetResourceNames() {
		// Field 999 is of no message that a relay could know: its bytes must arrive all the same.
		m := &discovery.DiscoveryResponse{TypeUrl: url, Nonce: string(rune('a' + i))}
		m.ProtoReflect().SetUnknown([]byte{0xba, 0x3e, 0x01, 'x'})
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		return err
	}
	return status.Error(codes.ResourceExhausted, "enough")
}

func TestRelayHoldsBackOneTypeAndKeepsItsOrder(t *testing.T) {
	t.Parallel()
	listener, err := listen("")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(server, burst{})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	relay := NewRelay(t, RelayOptions{Target: listener.Addr().String(), Delay: func(url string) time.Duration {
		if url == "late" {
			return 100 * time.Millisecond
		}
		return 0
	}})
	conn, err := grpc.NewClient("passthrough:///"+relay.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&discovery.DiscoveryRequest{ResourceNames: []string{"late", "soon", "late", "soon"}}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	var order string
	for range 4 {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		order += m.GetNonce()
		if m.GetTypeUrl() == "late" && time.Since(start) < 90*time.Millisecond {
			t.Errorf("a response of the late type came after %v", time.Since(start))
		}
		if body, err := proto.Marshal(m); err != nil || !bytes.Contains(body, []byte{0xba, 0x3e, 0x01, 'x'}) {
			t.Errorf("bytes were lost: %x, %v", body, err)
		}
	}
	if order != "bdac" {
		t.Errorf("the order is %s, want bdac", order)
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("the stream ended with %v, want the server's own status", err)
	}
	if n := relay.Delayed(); n != 2 {
		t.Errorf("%d responses were held back, want 2", n)
	}
}
