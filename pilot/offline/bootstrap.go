package offline

import (
	"fmt"
	"maps"
	"slices"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	internalv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/bootstrap/internal_listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

const (
	// agentCluster is the cluster of the agent that hands out certificates, and agentSocket where it listens; both as in
	// the bootstrap that Istio's agent writes.
	agentCluster = "sds-grpc"
	agentSocket  = "./var/run/secrets/workload-spiffe-uds/socket"
	// regexLimit replaces Envoy's own limit of 100, which refuses ordinary expressions and all routes around them.
	regexLimit = 32768
)

// Bootstrap returns the bootstrap of an Envoy that has the resources as static ones and asks nobody for more: routes
// stand in their listeners, endpoints in their clusters, extensions in place. The admin port is the kernel's choice.
// Certificates are still asked of the agent, where a resource names one.
func (r Resources) Bootstrap(node *corev3.Node) (*bootstrapv3.Bootstrap, error) {
	limit := structpb.NewNumberValue(regexLimit)
	b := &bootstrapv3.Bootstrap{
		Node:  node,
		Admin: &bootstrapv3.Admin{Address: translate.SocketAddress("127.0.0.1", 0)},
		LayeredRuntime: &bootstrapv3.LayeredRuntime{Layers: []*bootstrapv3.RuntimeLayer{{
			Name: "static", LayerSpecifier: &bootstrapv3.RuntimeLayer_StaticLayer{StaticLayer: &structpb.Struct{
				Fields: map[string]*structpb.Value{"re2.max_program_size.error_level": limit},
			}},
		}}},
		StaticResources: &bootstrapv3.Bootstrap_StaticResources{},
	}
	f := fixer{r}
	for _, name := range slices.Sorted(maps.Keys(r[translate.ClusterType])) {
		c, ok := r[translate.ClusterType][name].Message.(*clusterv3.Cluster)
		if !ok {
			continue
		}
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, f.cluster(c))
	}
	for _, name := range slices.Sorted(maps.Keys(r[translate.ListenerType])) {
		l, ok := r[translate.ListenerType][name].Message.(*listenerv3.Listener)
		if !ok {
			continue
		}
		fixed, err := f.listener(l)
		if err != nil {
			return nil, fmt.Errorf("listener %s: %w", name, err)
		}
		b.StaticResources.Listeners = append(b.StaticResources.Listeners, fixed)
	}
	return b, addWhatIsNamed(b)
}

// BootstrapJSON returns the bootstrap as JSON, deterministically.
func (r Resources) BootstrapJSON(node *corev3.Node) ([]byte, error) {
	b, err := r.Bootstrap(node)
	if err != nil {
		return nil, err
	}
	v, err := tree(b)
	if err != nil {
		return nil, err
	}
	return indented(v)
}

// addWhatIsNamed adds what resources need of a bootstrap: the agent's cluster and the extension for internal listeners.
func addWhatIsNamed(b *bootstrapv3.Bootstrap) error {
	agent, internal := false, false
	visit(b.StaticResources.ProtoReflect(), func(m proto.Message) {
		switch m := m.(type) {
		case *corev3.GrpcService_EnvoyGrpc:
			agent = agent || m.GetClusterName() == agentCluster
		case *corev3.EnvoyInternalAddress, *listenerv3.Listener_InternalListenerConfig:
			internal = true
		}
	})
	agent = agent && !slices.ContainsFunc(b.StaticResources.Clusters, func(c *clusterv3.Cluster) bool { return c.GetName() == agentCluster })
	if agent {
		c, err := agentClusterOf()
		if err != nil {
			return err
		}
		b.StaticResources.Clusters = append(b.StaticResources.Clusters, c)
	}
	if internal {
		a, err := anypb.New(&internalv3.InternalListener{})
		if err != nil {
			return err
		}
		b.BootstrapExtensions = []*corev3.TypedExtensionConfig{{Name: "envoy.bootstrap.internal_listener", TypedConfig: a}}
	}
	return nil
}

func agentClusterOf() (*clusterv3.Cluster, error) {
	options, err := anypb.New(&httpv3.HttpProtocolOptions{UpstreamProtocolOptions: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{
		ExplicitHttpConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{Http2ProtocolOptions: &corev3.Http2ProtocolOptions{}},
		},
	}})
	if err != nil {
		return nil, err
	}
	socket := &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: agentSocket}}}
	return &clusterv3.Cluster{
		Name: agentCluster, ClusterDiscoveryType: &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC},
		ConnectTimeout:                durationpb.New(1e9),
		TypedExtensionProtocolOptions: map[string]*anypb.Any{"envoy.extensions.upstreams.http.v3.HttpProtocolOptions": options},
		LoadAssignment: &endpointv3.ClusterLoadAssignment{ClusterName: agentCluster, Endpoints: []*endpointv3.LocalityLbEndpoints{{
			LbEndpoints: []*endpointv3.LbEndpoint{{HostIdentifier: &endpointv3.LbEndpoint_Endpoint{
				Endpoint: &endpointv3.Endpoint{Address: socket},
			}}},
		}}},
	}, nil
}

// fixer puts what is delivered apart in its place.
type fixer struct{ r Resources }

// cluster puts the endpoints in.
func (f fixer) cluster(c *clusterv3.Cluster) *clusterv3.Cluster {
	if c.GetType() != clusterv3.Cluster_EDS || c.GetClusterType() != nil {
		return c
	}
	out := proto.CloneOf(c)
	set := endpointSet(c)
	out.LoadAssignment = &endpointv3.ClusterLoadAssignment{ClusterName: set}
	if r := f.r[translate.EndpointType][set]; r != nil {
		if e, ok := r.Message.(*endpointv3.ClusterLoadAssignment); ok {
			out.LoadAssignment = e
		}
	}
	out.EdsClusterConfig = nil
	out.ClusterDiscoveryType = &clusterv3.Cluster_Type{Type: clusterv3.Cluster_STATIC}
	return out
}

// listener puts routes and extensions in. A filter whose extension is not there is left out, as is one that Envoy would
// wait for.
func (f fixer) listener(l *listenerv3.Listener) (*listenerv3.Listener, error) {
	out := proto.CloneOf(l)
	chains := slices.Clone(out.FilterChains)
	if out.DefaultFilterChain != nil {
		chains = append(chains, out.DefaultFilterChain)
	}
	for _, c := range chains {
		c.Filters = slices.DeleteFunc(c.Filters, func(n *listenerv3.Filter) bool {
			if n.GetConfigDiscovery() == nil {
				return false
			}
			a := f.extension(n.GetName(), n.GetConfigDiscovery())
			n.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: a}
			return a == nil
		})
		for _, n := range c.Filters {
			if err := f.manager(n); err != nil {
				return nil, fmt.Errorf("filter chain %s: %w", c.GetName(), err)
			}
		}
	}
	return out, nil
}

// manager puts routes and extensions into a filter that is an HTTP connection manager.
func (f fixer) manager(n *listenerv3.Filter) error {
	m := &hcmv3.HttpConnectionManager{}
	if !n.GetTypedConfig().MessageIs(m) {
		return nil
	}
	if err := n.GetTypedConfig().UnmarshalTo(m); err != nil {
		return err
	}
	if rds := m.GetRds(); rds != nil {
		routes := &routev3.RouteConfiguration{Name: rds.GetRouteConfigName()}
		if r := f.r[translate.RouteType][routes.Name]; r != nil {
			if c, ok := r.Message.(*routev3.RouteConfiguration); ok {
				routes = c
			}
		}
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: routes}
	}
	m.HttpFilters = slices.DeleteFunc(m.HttpFilters, func(h *hcmv3.HttpFilter) bool {
		if h.GetConfigDiscovery() == nil {
			return false
		}
		a := f.extension(h.GetName(), h.GetConfigDiscovery())
		h.ConfigType = &hcmv3.HttpFilter_TypedConfig{TypedConfig: a}
		return a == nil
	})
	a := &anypb.Any{}
	if err := anypb.MarshalFrom(a, m, proto.MarshalOptions{Deterministic: true}); err != nil {
		return err
	}
	n.ConfigType = &listenerv3.Filter_TypedConfig{TypedConfig: a}
	return nil
}

// extension returns the configuration of a name, the default if there is none, or nil.
func (f fixer) extension(name string, d *corev3.ExtensionConfigSource) *anypb.Any {
	if r := f.r[translate.ExtensionType][name]; r != nil {
		if e, ok := r.Message.(*corev3.TypedExtensionConfig); ok {
			return e.GetTypedConfig()
		}
	}
	return d.GetDefaultConfig()
}
