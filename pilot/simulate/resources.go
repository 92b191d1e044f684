package simulate

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// Resources are what one proxy holds. A walk does not modify them.
type Resources struct {
	Listeners  []*listenerv3.Listener
	Routes     map[string]*routev3.RouteConfiguration
	Clusters   map[string]*clusterv3.Cluster
	Endpoints  map[string]*endpointv3.ClusterLoadAssignment
	Extensions map[string]*corev3.TypedExtensionConfig
	// Objects, if set, returns the users' objects, as "Kind/namespace/name", that a resource was made from: a listener, a
	// route configuration or a cluster, by its name.
	Objects func(s Stage, name string) []string
}

// Add adds a resource of any of the types; others are left out.
func (r *Resources) Add(name string, m proto.Message) {
	switch m := m.(type) {
	case *listenerv3.Listener:
		r.Listeners = append(r.Listeners, m)
	case *routev3.RouteConfiguration:
		r.Routes = with(r.Routes, name, m)
	case *clusterv3.Cluster:
		r.Clusters = with(r.Clusters, name, m)
	case *endpointv3.ClusterLoadAssignment:
		r.Endpoints = with(r.Endpoints, name, m)
	case *corev3.TypedExtensionConfig:
		r.Extensions = with(r.Extensions, name, m)
	}
}

func with[T any](m map[string]T, name string, v T) map[string]T {
	if m == nil {
		m = map[string]T{}
	}
	m[name] = v
	return m
}

// opened returns the message in an Any, nil if it cannot be read.
func opened(a *anypb.Any) proto.Message {
	if a == nil {
		return nil
	}
	m, err := a.UnmarshalNew()
	if err != nil {
		return nil
	}
	return m
}
