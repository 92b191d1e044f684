package patch

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"

	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// verdict tells why Envoy would refuse a message.
type verdict func(proto.Message) error

// verdictFor returns the check of what a view's proxies are sent. Of a stock Envoy it is known which filters end a chain;
// Istio's proxies are sent what patches make of a chain, as istiod does.
func verdictFor(c *view.Context) verdict {
	if c.Stock() {
		return checkStock
	}
	return check
}

// checkStock is check for a stock Envoy, which refuses chains whose last filter does not end them, or another does, and
// filters of another kind.
func checkStock(m proto.Message) error {
	if err := check(m); err != nil {
		return err
	}
	l, ok := m.(*listenerv3.Listener)
	if !ok {
		return nil
	}
	for _, f := range l.GetListenerFilters() {
		if err := belongs(f, "listener"); err != nil {
			return err
		}
	}
	chains := l.GetFilterChains()
	if c := l.GetDefaultFilterChain(); c != nil {
		chains = append(chains[:len(chains):len(chains)], c)
	}
	for _, c := range chains {
		if err := endsAtLast(c.GetFilters(), "network", endsConnections); err != nil {
			return fmt.Errorf("the filter chain %q: %w", c.GetName(), err)
		}
		for _, f := range c.GetFilters() {
			manager := &hcmv3.HttpConnectionManager{}
			if !f.GetTypedConfig().MessageIs(manager) || f.GetTypedConfig().UnmarshalTo(manager) != nil {
				continue
			}
			if err := endsAtLast(manager.GetHttpFilters(), "http", endsRequests); err != nil {
				return fmt.Errorf("the filter chain %q: %w", c.GetName(), err)
			}
		}
	}
	return nil
}

// endsAtLast fails unless the last filter of a list, and no other, is one that ends it, and all belong there. What is
// discovered by name is taken on trust.
func endsAtLast[F filterMessage](list []F, kind string, ends func(typeName string) bool) error {
	for i, f := range list {
		if err := belongs(f, kind); err != nil {
			return err
		}
		if f.GetTypedConfig() == nil {
			continue
		}
		last := i == len(list)-1
		if ends(string(f.GetTypedConfig().MessageName())) == last {
			continue
		}
		if last {
			return fmt.Errorf("the filter %q is the last, and does not end the chain", f.GetName())
		}
		return fmt.Errorf("the filter %q ends the chain, and is not the last", f.GetName())
	}
	return nil
}

// belongs fails for a filter of Envoy's own that is of another kind than its list, and for one that nothing configures
// and whose name is none of Envoy's.
func belongs(f filterMessage, kind string) error {
	if f.GetTypedConfig() == nil {
		discovered, ok := f.(interface {
			GetConfigDiscovery() *corev3.ExtensionConfigSource
		})
		if ok && discovered.GetConfigDiscovery() == nil && !strings.HasPrefix(f.GetName(), "envoy.") {
			return fmt.Errorf("the filter %q has no configuration", f.GetName())
		}
		return nil
	}
	const filters = "envoy.extensions.filters."
	name := string(f.GetTypedConfig().MessageName())
	if strings.HasPrefix(name, filters) && !strings.HasPrefix(name, filters+kind+".") || strings.HasPrefix(name, "envoy.extensions.transport_sockets.") {
		return fmt.Errorf("the filter %q: a %s is no %s filter", f.GetName(), name, kind)
	}
	return nil
}

// endsRequests names the HTTP filters after which no other may stand.
func endsRequests(typeName string) bool {
	return typeName == "envoy.extensions.filters.http.router.v3.Router"
}

// endsConnections names the network filters of Envoy 1.40 after which no other may stand.
func endsConnections(typeName string) bool {
	const of = "envoy.extensions.filters.network."
	switch typeName {
	case of + "http_connection_manager.v3.HttpConnectionManager", of + "http_connection_manager.v3.EnvoyMobileHttpConnectionManager",
		of + "tcp_proxy.v3.TcpProxy", of + "echo.v3.Echo", of + "direct_response.v3.Config", of + "redis_proxy.v3.RedisProxy",
		of + "thrift_proxy.v3.ThriftProxy", of + "dubbo_proxy.v3.DubboProxy", of + "generic_proxy.v3.GenericProxy",
		of + "kafka_mesh.v3alpha.KafkaMesh", of + "rocketmq_proxy.v3.RocketmqProxy", of + "sip_proxy.v3alpha.SipProxy",
		of + "meta_protocol_proxy.v3.MetaProtocolProxy", of + "reverse_tunnel.v3.ReverseTunnel":
		return true
	}
	return false
}
