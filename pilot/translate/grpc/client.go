package grpc

import (
	"fmt"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/route"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// unspecified is the address of services that have none.
const unspecified = "0.0.0.0"

// builder makes the resource of one name, nil if there is none.
type builder func(c *view.Context, name string) (*translate.Message, error)

// named returns a slot of what gRPC clients ask for by name.
func named(slot, typeURL string, build builder) *translate.Slot {
	return &translate.Slot{
		Name: slot, TypeURL: typeURL,
		Build: func(c *view.Context, unit any) ([]*translate.Message, error) {
			name, ok := unit.(string)
			if !ok {
				return nil, fmt.Errorf("%s: unit %v is not a name", slot, unit)
			}
			if c.Generator() != view.GRPC {
				return nil, nil
			}
			m, err := build(c, name)
			if m == nil || err != nil {
				return nil, err
			}
			return []*translate.Message{m}, nil
		},
	}
}

// ListenerSlot returns the listeners of clients, by what they dial: "host:port".
func ListenerSlot() *translate.Slot {
	return named("lds/grpc-client", translate.ListenerType, clientListener)
}

// clientListener says which routes there are for a port of a service.
func clientListener(c *view.Context, name string) (*translate.Message, error) {
	if strings.HasPrefix(name, serverPrefix) {
		return nil, nil
	}
	host, number, ok := parseClient(name)
	if !ok {
		return nil, nil
	}
	s := find(c, host)
	if s == nil {
		return nil, nil
	}
	port := portOf(s, number)
	if port == nil {
		return nil, nil
	}
	out := &listenerv3.Listener{Name: name, ApiListener: &listenerv3.ApiListener{ApiListener: pack(&hcmv3.HttpConnectionManager{
		HttpFilters: clientFilters(c, s.Service),
		RouteSpecifier: &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
			ConfigSource:    ads(),
			RouteConfigName: traffic.Name{Direction: traffic.Outbound, Port: port.Number, Host: s.Host}.String(),
		}},
	})}}
	setAddresses(c, out, s.Service, port.Number)
	return &translate.Message{Name: name, Proto: out}, nil
}

// setAddresses tells where the service is reached, which is for people: gRPC does not look at it.
func setAddresses(c *view.Context, l *listenerv3.Listener, s *model.Service, port uint32) {
	addresses := c.Addresses(s)
	if len(addresses) == 0 {
		addresses = []string{unspecified}
	}
	for i, a := range addresses {
		a, _, _ = strings.Cut(a, "/")
		if i == 0 {
			l.Address = translate.SocketAddress(a, port)
		} else {
			l.AdditionalAddresses = append(l.AdditionalAddresses, &listenerv3.AdditionalAddress{Address: translate.SocketAddress(a, port)})
		}
	}
}

func clientFilters(c *view.Context, s *model.Service) []*hcmv3.HttpFilter {
	var out []*hcmv3.HttpFilter
	if c.Settings().EnablePersistentSessionFilter {
		if session := route.StatefulSession(s); session != nil {
			f := httpFilter(nameSession, session)
			f.IsOptional = true // a library that does not know it would refuse the listener
			out = append(out, f)
		}
	}
	return append(out, httpFilter(nameFault, &faultv3.HTTPFault{}), httpFilter(nameRouter, &routerv3.Router{}))
}
