package proxy

import (
	"fmt"
	"slices"
	"sync"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// Needs are what one resource leads to.
type Needs struct {
	// Names are the endpoint set of a cluster, the route configurations of a listener, the clusters of a route
	// configuration.
	Names []string
	// Apart is set for route configurations whose virtual hosts come by VHDS.
	Apart bool
}

// Reader finds out what resources lead to, and remembers it. It may be shared by any number of proxies.
type Reader struct{ held sync.Map } // typeURL and body to Needs

// Of returns what a resource leads to. An error says that its bytes are no message of that type.
func (r *Reader) Of(typeURL, body string) (Needs, error) {
	key := [2]string{typeURL, body}
	if n, ok := r.held.Load(key); ok {
		return n.(Needs), nil
	}
	n, err := needsOf(typeURL, []byte(body))
	if err != nil {
		return Needs{}, fmt.Errorf("%s: %w", typeURL, err)
	}
	r.held.Store(key, n)
	return n, nil
}

func needsOf(typeURL string, body []byte) (Needs, error) {
	switch typeURL {
	case translate.ClusterType:
		c := &clusterv3.Cluster{}
		if err := proto.Unmarshal(body, c); err != nil {
			return Needs{}, err
		}
		if c.GetType() != clusterv3.Cluster_EDS {
			return Needs{}, nil
		}
		if n := c.GetEdsClusterConfig().GetServiceName(); n != "" {
			return Needs{Names: []string{n}}, nil
		}
		return Needs{Names: []string{c.GetName()}}, nil
	case translate.ListenerType:
		l := &listenerv3.Listener{}
		if err := proto.Unmarshal(body, l); err != nil {
			return Needs{}, err
		}
		return listenerNeeds(l)
	case translate.RouteType:
		c := &routev3.RouteConfiguration{}
		if err := proto.Unmarshal(body, c); err != nil {
			return Needs{}, err
		}
		return Needs{Names: routeClusters(c), Apart: c.GetVhds() != nil}, nil
	}
	return Needs{}, nil
}

func listenerNeeds(l *listenerv3.Listener) (Needs, error) {
	var out Needs
	managers := []*anypb.Any{l.GetApiListener().GetApiListener()}
	for _, c := range append(slices.Clone(l.GetFilterChains()), l.GetDefaultFilterChain()) {
		for _, f := range c.GetFilters() {
			managers = append(managers, f.GetTypedConfig())
		}
	}
	for _, a := range managers {
		m := &hcmv3.HttpConnectionManager{}
		if a == nil || !a.MessageIs(m) {
			continue
		}
		if err := a.UnmarshalTo(m); err != nil {
			return Needs{}, err
		}
		if n := m.GetRds().GetRouteConfigName(); n != "" {
			out.Names = append(out.Names, n)
		}
	}
	return out, nil
}

func routeClusters(c *routev3.RouteConfiguration) []string {
	var out []string
	for _, h := range c.GetVirtualHosts() {
		for _, r := range h.GetRoutes() {
			if n := r.GetRoute().GetCluster(); n != "" {
				out = append(out, n)
			}
			for _, w := range r.GetRoute().GetWeightedClusters().GetClusters() {
				out = append(out, w.GetName())
			}
		}
	}
	return out
}
