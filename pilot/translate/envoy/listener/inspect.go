package listener

import (
	"maps"
	"slices"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	httpinspv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/http_inspector/v3"
	originaldstv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_dst/v3"
	originalsrcv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/original_src/v3"
	tlsinspv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/filter"
)

const (
	// inspectorBuffer is what the TLS inspector reads at first, in bytes; most hellos are no longer.
	inspectorBuffer = 512
	// transparentMark marks connections that TPROXY must not take again.
	transparentMark = 1337
)

func listenerFilter(f *filter.Set, name string, m proto.Message) *listenerv3.ListenerFilter {
	return &listenerv3.ListenerFilter{
		Name: name, ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: f.Pack(m)},
	}
}

func tlsInspector(f *filter.Set) *listenerv3.ListenerFilter {
	return listenerFilter(f, "envoy.filters.listener.tls_inspector", &tlsinspv3.TlsInspector{
		InitialReadBufferSize: wrapperspb.UInt32(inspectorBuffer),
	})
}

func httpInspector(f *filter.Set) *listenerv3.ListenerFilter {
	return listenerFilter(f, "envoy.filters.listener.http_inspector", &httpinspv3.HttpInspector{})
}

func originalDst(f *filter.Set) *listenerv3.ListenerFilter {
	return listenerFilter(f, "envoy.filters.listener.original_dst", &originaldstv3.OriginalDst{})
}

func originalSrc(f *filter.Set) *listenerv3.ListenerFilter {
	return listenerFilter(f, "envoy.filters.listener.original_src", &originalsrcv3.OriginalSrc{Mark: transparentMark})
}

// inspections says which destination ports need which inspector. Port 0 is every port not named.
type inspections map[uint32]inspection

type inspection struct{ tls, http bool }

// need adds what one chain's match asks of the inspectors.
func (x inspections) need(port uint32, tls, http bool) {
	i := x[port]
	x[port] = inspection{i.tls || tls, i.http || http}
}

// filters returns the inspectors, each switched off for ports that do without: a server that speaks first must not
// wait for its client (translation-l4 §5.4).
func (x inspections) filters(f *filter.Set) []*listenerv3.ListenerFilter {
	var out []*listenerv3.ListenerFilter
	anyTLS, anyHTTP := false, false
	for _, i := range x {
		anyTLS, anyHTTP = anyTLS || i.tls, anyHTTP || i.http
	}
	if anyTLS {
		l := tlsInspector(f)
		l.FilterDisabled = x.tlsDisabled()
		out = append(out, l)
	}
	if anyHTTP {
		l := httpInspector(f)
		l.FilterDisabled = anyPort(x.ports(func(_ uint32, i inspection) bool { return !i.http }))
		out = append(out, l)
	}
	return out
}

func (x inspections) tlsDisabled() *listenerv3.ListenerFilterChainMatchPredicate {
	byDefault := x[0].tls
	ports := x.ports(func(p uint32, i inspection) bool { return p != 0 && i.tls != byDefault })
	if byDefault {
		return anyPort(ports)
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{
		Rule: &listenerv3.ListenerFilterChainMatchPredicate_NotMatch{NotMatch: anyPort(ports)},
	}
}

func (x inspections) ports(take func(uint32, inspection) bool) []uint32 {
	var out []uint32
	for _, p := range slices.Sorted(maps.Keys(x)) {
		if take(p, x[p]) {
			out = append(out, p)
		}
	}
	return out
}

// anyPort matches connections to one of the ports, nil if there is none.
func anyPort(ports []uint32) *listenerv3.ListenerFilterChainMatchPredicate {
	rules := make([]*listenerv3.ListenerFilterChainMatchPredicate, len(ports))
	for i, p := range ports {
		rules[i] = &listenerv3.ListenerFilterChainMatchPredicate{
			Rule: &listenerv3.ListenerFilterChainMatchPredicate_DestinationPortRange{
				DestinationPortRange: &typev3.Int32Range{Start: int32(p), End: int32(p) + 1},
			},
		}
	}
	switch len(rules) {
	case 0:
		return nil
	case 1:
		return rules[0]
	}
	return &listenerv3.ListenerFilterChainMatchPredicate{
		Rule: &listenerv3.ListenerFilterChainMatchPredicate_OrMatch{
			OrMatch: &listenerv3.ListenerFilterChainMatchPredicate_MatchSet{Rules: rules},
		},
	}
}
