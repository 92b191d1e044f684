package offline

import (
	"fmt"
	"net"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// ReadNode reads an xDS node from JSON: the form in which Envoy's bootstrap and its config dump have it. Fields that are
// not known are left out, as newer Envoys state more.
func ReadNode(text []byte) (*corev3.Node, error) {
	n := &corev3.Node{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, n); err != nil {
		return nil, fmt.Errorf("reading the node: %w", err)
	}
	return n, nil
}

// Stock returns the node as a stock Envoy states it: with a list of extensions that has none of Istio's. A node that has
// a list already is returned as it is.
func Stock(n *corev3.Node) *corev3.Node {
	if len(n.GetExtensions()) > 0 {
		return n
	}
	out := proto.CloneOf(n)
	out.Extensions = []*corev3.Extension{{Name: "envoy.filters.network.http_connection_manager", Category: "envoy.filters.network"}}
	return out
}

// SubscriptionOf returns what a proxy asks for that states the node: all of an Envoy's types, and the name table that its
// agent asks for. A gRPC library asks for targets ("host:port") and for its server's listeners by name; without targets,
// it is one that calls every port of every service.
func (p *Plane) SubscriptionOf(n *corev3.Node, targets []string) Subscription {
	if n.GetMetadata().GetFields()["GENERATOR"].GetStringValue() != view.GRPC {
		return Subscription{Types: []string{
			translate.ClusterType, translate.EndpointType, translate.ListenerType, translate.RouteType, translate.ExtensionType, translate.NameTableType,
		}}
	}
	if len(targets) == 0 {
		for _, s := range p.Services() {
			for _, port := range s.Ports {
				targets = append(targets, net.JoinHostPort(s.Host, strconv.FormatUint(uint64(port.Number), 10)))
			}
		}
	}
	return Subscription{
		Types:  []string{translate.ListenerType, translate.RouteType, translate.ClusterType, translate.EndpointType},
		Names:  map[string][]string{translate.ListenerType: targets},
		Routed: true,
	}
}
