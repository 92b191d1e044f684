package grpc

import (
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/policy"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// ServerSlot returns the listeners of servers, by the address they listen at. It stands apart from the clients' because
// they depend on the workload.
func ServerSlot() *translate.Slot {
	return named("lds/grpc-server", translate.ListenerType, serverListener)
}

// serverListener says how a port of the proxy's workload is secured. Ports that no service sends traffic to have none.
func serverListener(c *view.Context, name string) (*translate.Message, error) {
	at, ok := parseServer(name)
	if !ok || !serves(c, at.port) {
		return nil, nil
	}
	kind := "plaintext"
	chain := &listenerv3.FilterChain{}
	if secured(c, at.port) {
		kind = "mtls"
		chain.TransportSocket = tlsSocket(&tlsv3.DownstreamTlsContext{
			CommonTlsContext: mutual(&tlsv3.CertificateValidationContext{}), RequireClientCertificate: wrapperspb.Bool(true),
		})
	}
	chain.Name = "inbound-" + kind
	chain.Filters = []*listenerv3.Filter{{
		Name: "inbound-hcm" + kind,
		ConfigType: &listenerv3.Filter_TypedConfig{TypedConfig: pack(&hcmv3.HttpConnectionManager{
			HttpFilters:    append(policy.New(c, filter.New(c)).GRPC(), httpFilter(nameRouter, &routerv3.Router{})),
			RouteSpecifier: &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: handOver()},
		})},
	}}
	return &translate.Message{Name: name, Proto: &listenerv3.Listener{
		Name: name, Address: translate.SocketAddress(at.host, at.port), FilterChains: []*listenerv3.FilterChain{chain},
	}}, nil
}

func serves(c *view.Context, port uint32) bool {
	for _, t := range c.Targets() {
		if t.TargetPort == port {
			return true
		}
	}
	return false
}

// secured tells whether a port takes mutual TLS alone. A gRPC server cannot tell TLS from plaintext, so that permissive
// means the one that the workload's clients in the mesh choose.
func secured(c *view.Context, port uint32) bool {
	switch c.InboundMTLS(port) {
	case model.MTLSStrict:
		return true
	case model.MTLSPermissive:
		return c.HasCertificate()
	}
	return false
}

// handOver returns the routes that give every call to the application.
func handOver() *routev3.RouteConfiguration {
	return &routev3.RouteConfiguration{Name: "inbound", VirtualHosts: []*routev3.VirtualHost{{
		Domains: []string{"*"},
		Routes: []*routev3.Route{{
			Match:  &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}},
			Action: &routev3.Route_NonForwardingAction{NonForwardingAction: &routev3.NonForwardingAction{}},
		}},
	}}}
}
