package filter

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	cachev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/dynamic_forward_proxy/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	casev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/header_formatters/preserve_case/v3"
	uuidv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/request_id/uuid/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	meshconfig "istio.io/api/mesh/v1alpha1"

	"github.com/mizzen-mesh/mizzen/pilot/model"
)

// HTTP says what is particular about one HTTP chain.
type HTTP struct {
	Direction  Direction
	StatPrefix string
	// Port is the listener's port as users know it, by which plugins are selected.
	Port uint32
	// RouteName is the route configuration to ask for; with Route set that is used inline.
	RouteName string
	Route     *routev3.RouteConfiguration
	// Protocol is that of the service port that made the chain.
	Protocol model.Protocol
	// Forward is the DNS cache of a service whose names are resolved at request time.
	Forward *cachev3.DnsCacheConfig
	// AbsoluteURL is set on HTTP proxy listeners.
	AbsoluteURL bool
	// Policy are the filters that authenticate and authorize requests; inbound only.
	Policy Policy
	// Tunnelled is set within HBONE tunnels, whose ends know each other already.
	Tunnelled bool
	// Peer says how callers are known; inbound only.
	Peer Peer
}

// Policy is the filters that decide about requests or connections.
type Policy struct {
	// Custom filters ask others; they stand before authentication.
	Custom []*hcmv3.HttpFilter
	// Authn is the JWT filter, if any.
	Authn []*hcmv3.HttpFilter
	// Authz are the filters for AUDIT, DENY and ALLOW.
	Authz []*hcmv3.HttpFilter
}

// Requests returns the network filters of an HTTP chain: the HTTP connection manager and what comes before it.
func (s *Set) Requests(o HTTP) []*listenerv3.Filter {
	var out []*listenerv3.Filter
	if o.Direction == Inbound && !o.Tunnelled {
		out = append(out, s.exchange()...)
	}
	out = append(out, s.own(len(s.metrics(o.metrics())) > 0 || s.tellsPeers() && (o.Direction == Outbound || o.Peer != PeerUnknown))...)
	out = append(out, s.added.Network(o.Direction.mode(), o.Port).All()...)
	return append(out, s.NetworkFilter(nameHCM, s.manager(o)))
}

func (o HTTP) metrics() metricsID { return metricsID{o.Direction, o.Peer, false} }

func (s *Set) manager(o HTTP) *hcmv3.HttpConnectionManager {
	m := &hcmv3.HttpConnectionManager{
		CodecType:                    hcmv3.HttpConnectionManager_AUTO,
		StatPrefix:                   o.StatPrefix,
		UseRemoteAddress:             wrapperspb.Bool(false),
		Proxy_100Continue:            true,
		StreamIdleTimeout:            durationpb.New(0),
		PathWithEscapedSlashesAction: hcmv3.HttpConnectionManager_KEEP_UNCHANGED,
		UpgradeConfigs:               []*hcmv3.HttpConnectionManager_UpgradeConfig{{UpgradeType: "websocket"}},
		HttpFilters:                  s.httpFilters(o),
		AccessLog:                    append(s.accessLog(o.Direction, false), s.metrics(o.metrics())...),
	}
	s.setRoutes(m, o)
	s.setNormalization(m)
	s.setProtocolOptions(m, o)
	s.setHeaders(m, o)
	tracing, requestID := s.tracing(o.Direction)
	m.Tracing = tracing
	m.RequestIdExtension = &hcmv3.RequestIDExtension{TypedConfig: s.Pack(&uuidv3.UuidRequestIdConfig{
		UseRequestIdForTraceSampling: wrapperspb.Bool(requestID),
	})}
	return m
}

func (s *Set) setRoutes(m *hcmv3.HttpConnectionManager, o HTTP) {
	if o.Route != nil {
		m.RouteSpecifier = &hcmv3.HttpConnectionManager_RouteConfig{RouteConfig: o.Route}
		return
	}
	m.RouteSpecifier = &hcmv3.HttpConnectionManager_Rds{Rds: &hcmv3.Rds{
		RouteConfigName: o.RouteName,
		ConfigSource: &corev3.ConfigSource{
			ConfigSourceSpecifier: &corev3.ConfigSource_Ads{Ads: &corev3.AggregatedConfigSource{}},
			InitialFetchTimeout:   durationpb.New(0),
			ResourceApiVersion:    corev3.ApiVersion_V3,
		},
	}}
}

func (s *Set) setNormalization(m *hcmv3.HttpConnectionManager) {
	m.NormalizePath = wrapperspb.Bool(true)
	switch s.mesh.GetPathNormalization().GetNormalization() {
	case meshconfig.MeshConfig_ProxyPathNormalization_NONE:
		m.NormalizePath = wrapperspb.Bool(false)
	case meshconfig.MeshConfig_ProxyPathNormalization_MERGE_SLASHES:
		m.MergeSlashes = true
	case meshconfig.MeshConfig_ProxyPathNormalization_DECODE_AND_MERGE_SLASHES:
		m.MergeSlashes = true
		m.PathWithEscapedSlashesAction = hcmv3.HttpConnectionManager_UNESCAPE_AND_FORWARD
	}
}

func (s *Set) setProtocolOptions(m *hcmv3.HttpConnectionManager, o HTTP) {
	if d := s.idleTimeout(); d != nil {
		m.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{IdleTimeout: d}
	}
	h1, some := &corev3.Http1ProtocolOptions{}, false
	if s.c.Settings().HTTP10 || s.c.Meta("HTTP10") == "1" {
		h1.AcceptHttp_10, some = true, true
	}
	if o.AbsoluteURL {
		h1.AllowAbsoluteUrl, some = wrapperspb.Bool(true), true
	}
	if s.ProxyConfig().GetProxyHeaders().GetPreserveHttp1HeaderCase().GetValue() {
		h1.HeaderKeyFormat, some = s.preserveCase(), true
	}
	if some {
		m.HttpProtocolOptions = h1
	}
	if o.Direction == Inbound && o.Protocol.IsHTTP2() {
		m.Http2ProtocolOptions = &corev3.Http2ProtocolOptions{}
	}
}

func (s *Set) preserveCase() *corev3.Http1ProtocolOptions_HeaderKeyFormat {
	return &corev3.Http1ProtocolOptions_HeaderKeyFormat{
		HeaderFormat: &corev3.Http1ProtocolOptions_HeaderKeyFormat_StatefulFormatter{
			StatefulFormatter: &corev3.TypedExtensionConfig{
				Name: nameCaseFormat, TypedConfig: s.Pack(&casev3.PreserveCaseFormatterConfig{}),
			},
		},
	}
}

// InboundHeaders sets what an inbound connection manager says about itself and its clients.
func (s *Set) InboundHeaders(m *hcmv3.HttpConnectionManager) {
	s.setHeaders(m, HTTP{Direction: Inbound})
}

func (s *Set) setHeaders(m *hcmv3.HttpConnectionManager, o HTTP) {
	h := s.ProxyConfig().GetProxyHeaders()
	if h.GetRequestId().GetDisabled().GetValue() {
		m.GenerateRequestId = wrapperspb.Bool(false)
	}
	if h.GetServer().GetDisabled().GetValue() {
		m.ServerHeaderTransformation = hcmv3.HttpConnectionManager_PASS_THROUGH
	}
	if h.GetXForwardedPort().GetEnabled().GetValue() {
		m.AppendXForwardedPort = true
	}
	if o.Direction == Outbound {
		return
	}
	if !h.GetServer().GetDisabled().GetValue() {
		m.ServerName = "istio-envoy"
		if v := h.GetServer().GetValue(); v != "" {
			m.ServerName = v
		}
	}
	m.ForwardClientCertDetails = hcmv3.HttpConnectionManager_APPEND_FORWARD
	if f := h.GetForwardedClientCert(); f != meshconfig.ForwardClientCertDetails_UNDEFINED {
		m.ForwardClientCertDetails = forwardDetails(f)
	}
	m.SetCurrentClientCertDetails = clientCertDetails(h.GetSetCurrentClientCertDetails())
}

func forwardDetails(f meshconfig.ForwardClientCertDetails) hcmv3.HttpConnectionManager_ForwardClientCertDetails {
	switch f {
	case meshconfig.ForwardClientCertDetails_FORWARD_ONLY:
		return hcmv3.HttpConnectionManager_FORWARD_ONLY
	case meshconfig.ForwardClientCertDetails_APPEND_FORWARD:
		return hcmv3.HttpConnectionManager_APPEND_FORWARD
	case meshconfig.ForwardClientCertDetails_SANITIZE_SET:
		return hcmv3.HttpConnectionManager_SANITIZE_SET
	case meshconfig.ForwardClientCertDetails_ALWAYS_FORWARD_ONLY:
		return hcmv3.HttpConnectionManager_ALWAYS_FORWARD_ONLY
	}
	return hcmv3.HttpConnectionManager_SANITIZE
}

func clientCertDetails(set *meshconfig.ProxyConfig_ProxyHeaders_SetCurrentClientCertDetails) *hcmv3.HttpConnectionManager_SetCurrentClientCertDetails {
	d := &hcmv3.HttpConnectionManager_SetCurrentClientCertDetails{Subject: wrapperspb.Bool(true), Uri: true, Dns: true}
	if set.GetSubject() != nil {
		d.Subject = wrapperspb.Bool(set.GetSubject().GetValue())
	}
	if set.GetUri() != nil {
		d.Uri = set.GetUri().GetValue()
	}
	if set.GetDns() != nil {
		d.Dns = set.GetDns().GetValue()
	}
	d.Cert, d.Chain = set.GetCert().GetValue(), set.GetChain().GetValue()
	return d
}
