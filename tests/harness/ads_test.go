package harness

import (
	"net"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// adsStub answers the first request for each type with fixed resources, in both protocols.
type adsStub struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	resources map[string][]*discovery.Resource // by type URL; fixed

	mu     sync.Mutex // guards the rest
	nodes  []string   // ids that connected
	denied []string   // error details of NACKs
}

// serveADS starts a stub that lives as long as the test and returns its address.
func serveADS(t *testing.T, stub *adsStub) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(server, stub)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return listener.Addr().String()
}

// seen notes a request and returns the resources to answer with, if it is the first for its type on its stream.
func (s *adsStub) seen(first map[string]bool, typeURL, node, denied string) ([]*discovery.Resource, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if node != "" {
		s.nodes = append(s.nodes, node)
	}
	if denied != "" {
		s.denied = append(s.denied, denied)
	}
	known := first[typeURL]
	first[typeURL] = true
	return s.resources[typeURL], !known && len(s.resources[typeURL]) > 0
}

func (s *adsStub) DeltaAggregatedResources(stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	first := map[string]bool{}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		resources, answer := s.seen(first, r.GetTypeUrl(), r.GetNode().GetId(), r.GetErrorDetail().GetMessage())
		if !answer {
			continue
		}
		if err := stream.Send(&discovery.DeltaDiscoveryResponse{TypeUrl: r.GetTypeUrl(), Nonce: "1", Resources: resources}); err != nil {
			return err
		}
	}
}

func (s *adsStub) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	first := map[string]bool{}
	for {
		r, err := stream.Recv()
		if err != nil {
			return err
		}
		resources, answer := s.seen(first, r.GetTypeUrl(), r.GetNode().GetId(), r.GetErrorDetail().GetMessage())
		if !answer {
			continue
		}
		response := &discovery.DiscoveryResponse{TypeUrl: r.GetTypeUrl(), VersionInfo: "1", Nonce: "1"}
		for _, resource := range resources {
			response.Resources = append(response.Resources, resource.GetResource())
		}
		if err := stream.Send(response); err != nil {
			return err
		}
	}
}

// resource wraps a message.
func resource(t *testing.T, name string, message proto.Message) *discovery.Resource {
	t.Helper()
	packed, err := anypb.New(message)
	if err != nil {
		t.Fatal(err)
	}
	return &discovery.Resource{Name: name, Version: "1", Resource: packed}
}
