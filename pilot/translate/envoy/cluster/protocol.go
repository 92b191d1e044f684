package cluster

import (
	"strconv"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/matcher/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	casev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/header_formatters/preserve_case/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	stringv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"

	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// protocolKind is how a cluster's HTTP protocol is chosen.
type protocolKind uint8

const (
	unsaid protocolKind = iota // Envoy's default, HTTP/1.1
	explicitH1
	explicitH2
	asDownstream
	numKinds
)

// httpOptions is what becomes a cluster's HttpProtocolOptions.
type httpOptions struct {
	kind         protocolKind
	preserveCase bool
	common       *corev3.HttpProtocolOptions
	upstream     *corev3.UpstreamHttpProtocolOptions
	streams      int32
	keepalive    *networking.ConnectionPoolSettings_HTTPSettings_ConnectionKeepalive
	errorCodes   []uint32
}

func (o *httpOptions) plain() bool {
	return o.common == nil && o.upstream == nil && o.streams <= 0 && o.keepalive == nil && len(o.errorCodes) == 0 &&
		!o.preserveCase
}

// protocol says how a cluster speaks HTTP (translation-l4 §2.3). pool is nil for inbound clusters where only the port
// counts.
func (j *job) protocol(p model.Protocol, pool *networking.ConnectionPoolSettings, outbound bool) httpOptions {
	sniffs := p.IsAuto() && (j.kind == view.Sidecar || j.kind == view.Waypoint)
	preserve := (p == model.HTTP || p.IsAuto()) && j.c.PreservesHeaderCase()
	switch {
	case outbound && pool.GetHttp().GetUseClientProtocol():
		return httpOptions{kind: asDownstream, preserveCase: preserve}
	case p.IsHTTP2():
		return httpOptions{kind: explicitH2}
	case sniffs:
		return httpOptions{kind: asDownstream, preserveCase: preserve}
	case preserve:
		return httpOptions{kind: explicitH1, preserveCase: true}
	case outbound && j.upgrades(p, pool):
		return httpOptions{kind: explicitH2}
	}
	return httpOptions{}
}

func (j *job) upgrades(p model.Protocol, pool *networking.ConnectionPoolSettings) bool {
	switch pool.GetHttp().GetH2UpgradePolicy() {
	case networking.ConnectionPoolSettings_HTTPSettings_UPGRADE:
		return true
	case networking.ConnectionPoolSettings_HTTPSettings_DO_NOT_UPGRADE:
		return false
	}
	return p == model.HTTP && j.mesh.Config.GetH2UpgradePolicy() == meshconfig.MeshConfig_UPGRADE
}

// setOptions puts o into cl, if there is anything to say.
func (j *job) setOptions(cl *clusterv3.Cluster, o *httpOptions) {
	if o.plain() {
		cl.TypedExtensionProtocolOptions = j.options[o.kind]
		return
	}
	cl.TypedExtensionProtocolOptions = j.packOptions(o)
}

func (m *maker) packOptions(o *httpOptions) map[string]*anypb.Any {
	return map[string]*anypb.Any{nameHTTPOptions: m.pack(m.optionsMessage(o))}
}

func (m *maker) optionsMessage(o *httpOptions) *httpv3.HttpProtocolOptions {
	out := &httpv3.HttpProtocolOptions{CommonHttpProtocolOptions: o.common, UpstreamHttpProtocolOptions: o.upstream}
	h1 := &corev3.Http1ProtocolOptions{}
	if o.preserveCase {
		h1.HeaderKeyFormat = &corev3.Http1ProtocolOptions_HeaderKeyFormat{
			HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{
				StatefulFormatter: &corev3.TypedExtensionConfig{
					Name: namePreserveCase, TypedConfig: m.pack(&casev3.PreserveCaseFormatterConfig{}),
				},
			},
		}
	}
	explicit := &httpv3.HttpProtocolOptions_ExplicitHttpConfig{}
	switch o.kind {
	case asDownstream:
		out.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_UseDownstreamProtocolConfig{
			UseDownstreamProtocolConfig: &httpv3.HttpProtocolOptions_UseDownstreamHttpConfig{
				HttpProtocolOptions: h1, Http2ProtocolOptions: &corev3.Http2ProtocolOptions{},
			},
		}
	case explicitH2:
		explicit.ProtocolConfig = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_Http2ProtocolOptions{
			Http2ProtocolOptions: http2Options(o),
		}
	default:
		explicit.ProtocolConfig = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{HttpProtocolOptions: h1}
	}
	if o.kind != asDownstream {
		out.UpstreamProtocolOptions = &httpv3.HttpProtocolOptions_ExplicitHttpConfig_{ExplicitHttpConfig: explicit}
	}
	if len(o.errorCodes) > 0 {
		out.OutlierDetection = &httpv3.HttpProtocolOptions_OutlierDetection{ErrorMatcher: errorMatcher(o.errorCodes)}
	}
	return out
}

func http2Options(o *httpOptions) *corev3.Http2ProtocolOptions {
	out := &corev3.Http2ProtocolOptions{}
	if o.streams > 0 {
		out.MaxConcurrentStreams = uint32Value(o.streams)
	}
	interval := traffic.AtLeast(o.keepalive.GetInterval(), time.Millisecond)
	// Envoy refuses the one without the other; what is left of a wrong setting is none.
	if timeout := traffic.AtLeast(o.keepalive.GetTimeout(), time.Millisecond); timeout != nil {
		out.ConnectionKeepalive = &corev3.KeepaliveSettings{Interval: interval, Timeout: timeout}
	}
	return out
}

// errorMatcher counts responses with one of the codes as errors.
func errorMatcher(codes []uint32) *matcherv3.MatchPredicate {
	rules := make([]*matcherv3.MatchPredicate, len(codes))
	for i, code := range codes {
		rules[i] = &matcherv3.MatchPredicate{Rule: &matcherv3.MatchPredicate_HttpResponseHeadersMatch{
			HttpResponseHeadersMatch: &matcherv3.HttpHeadersMatch{Headers: []*routev3.HeaderMatcher{{
				Name: ":status",
				HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: &stringv3.StringMatcher{
					MatchPattern: &stringv3.StringMatcher_Exact{Exact: strconv.FormatUint(uint64(code), 10)},
				}},
			}}},
		}}
	}
	if len(rules) == 1 {
		return rules[0]
	}
	return &matcherv3.MatchPredicate{Rule: &matcherv3.MatchPredicate_OrMatch{
		OrMatch: &matcherv3.MatchPredicate_MatchSet{Rules: rules},
	}}
}

// alpn is what a mesh client offers to servers of the mesh. Istio's proxies replace it for each request; a stock Envoy
// does not, so that its HTTP clusters must reach the server's HTTP chain by themselves. It cannot take part in the
// metadata exchange either, which a server would wait for if it was offered.
func (j *job) alpn(o *httpOptions, p model.Protocol) []string {
	switch {
	case j.c.Stock() && o.kind == explicitH2:
		return []string{"istio-h2", "istio", "h2"}
	case j.c.Stock() && p.IsHTTP():
		return []string{"istio-http/1.1", "istio", "http/1.1"}
	case j.c.Stock():
		return []string{"istio"}
	case !j.exchanges() || j.set.DisableMXALPN:
		if o.kind == explicitH2 {
			return []string{"istio", "h2"}
		}
		return []string{"istio"}
	case o.kind == explicitH2:
		return []string{"istio-peer-exchange", "istio", "h2"}
	}
	return []string{"istio-peer-exchange", "istio"}
}
