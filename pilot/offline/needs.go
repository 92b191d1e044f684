package offline

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// needs calls f with the type URL and name of each resource that a resource leads to.
func needs(m proto.Message, f func(typeURL, name string)) {
	visit(m.ProtoReflect(), func(m proto.Message) {
		switch m := m.(type) {
		case *clusterv3.Cluster:
			if m.GetType() == clusterv3.Cluster_EDS {
				f(translate.EndpointType, endpointSet(m))
			}
		case *hcmv3.HttpConnectionManager:
			if rds := m.GetRds(); rds != nil {
				f(translate.RouteType, rds.GetRouteConfigName())
			}
		case discovered:
			if m.GetConfigDiscovery() != nil {
				f(translate.ExtensionType, m.GetName())
			}
		case *routev3.RouteAction:
			if n := m.GetCluster(); n != "" {
				f(translate.ClusterType, n)
			}
		case *routev3.WeightedCluster_ClusterWeight:
			f(translate.ClusterType, m.GetName())
		}
	})
}

// discovered is a filter of any kind whose configuration may be delivered by ECDS.
type discovered interface {
	GetName() string
	GetConfigDiscovery() *corev3.ExtensionConfigSource
}

// endpointSet returns the name of the endpoint set of an EDS cluster.
func endpointSet(c *clusterv3.Cluster) string {
	if n := c.GetEdsClusterConfig().GetServiceName(); n != "" {
		return n
	}
	return c.GetName()
}

// visit calls f with m and all messages in it, those in Any included.
func visit(m protoreflect.Message, f func(proto.Message)) {
	if a, ok := m.Interface().(*anypb.Any); ok {
		if in, err := a.UnmarshalNew(); err == nil {
			visit(in.ProtoReflect(), f)
		}
		return
	}
	f(m.Interface())
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
			if fd.MapValue().Message() == nil {
				break
			}
			v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool {
				visit(v.Message(), f)
				return true
			})
		case fd.Message() == nil:
		case fd.IsList():
			for i := range v.List().Len() {
				visit(v.List().Get(i).Message(), f)
			}
		default:
			visit(v.Message(), f)
		}
		return true
	})
}
