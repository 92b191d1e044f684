package simulate

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	authzv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_authz/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	jwtv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/jwt_authn/v3"
	httprbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/rbac/v3"
	routerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// routing is where a request has been led.
type routing struct {
	config *routev3.RouteConfiguration
	host   *routev3.VirtualHost
	route  *routev3.Route
}

// http follows a request through a connection manager.
func (w *walker) http(m *hcmv3.HttpConnectionManager) {
	switch {
	case w.q.TLS && !w.terminated:
		w.reset("TLS reaches a filter that reads plaintext HTTP")
		return
	case w.q.Protocol == TCP:
		w.reset("the connection's bytes are no HTTP")
		return
	}
	if m.GetNormalizePath().GetValue() {
		w.q.Path = normalized(w.q.Path)
	}
	if m.GetMergeSlashes() {
		w.q.Path = merged(w.q.Path)
	}
	if m.GetStripAnyHostPort() {
		w.q.Host = withoutPort(w.q.Host)
	}
	w.asHTTP = true
	to, ok := w.route(m)
	if !ok {
		return
	}
	for _, f := range m.GetHttpFilters() {
		if !w.filter(f, to) {
			return
		}
	}
	w.reset("the HTTP filter chain has no router")
}

// escape is an escaped character.
const escape = `%[0-9a-fA-F]{2}`

// normalized is the path as the proxy makes it before it looks at it (RFC 3986 §6.2.2): what needs no escape is not
// escaped, dot segments are gone. Empty segments stay.
func normalized(p string) string {
	bare, rest := p, ""
	if i := strings.IndexAny(p, "?#"); i >= 0 {
		bare, rest = p[:i], p[i:]
	}
	segments := strings.Split(strings.TrimPrefix(regexp.MustCompile(escape).ReplaceAllStringFunc(bare, unescaped), "/"), "/")
	out := make([]string, 0, len(segments))
	for i, s := range segments {
		last := i == len(segments)-1
		switch s {
		case ".", "..":
			if s == ".." && len(out) > 0 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, s)
		}
	}
	return "/" + strings.Join(out, "/") + rest
}

// unescaped returns the character that an escape stands for if it needs none.
func unescaped(s string) string {
	n, err := strconv.ParseUint(s[1:], 16, 8)
	c := byte(n)
	if err == nil && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0) {
		return string(c)
	}
	return s
}

// merged is a path without empty segments.
func merged(p string) string {
	bare, query, has := strings.Cut(p, "?")
	for strings.Contains(bare, "//") {
		bare = strings.ReplaceAll(bare, "//", "/")
	}
	if has {
		bare += "?" + query
	}
	return bare
}

// route finds the virtual host and the route. Nothing is decided yet if there is none: filters may deny the request
// before.
func (w *walker) route(m *hcmv3.HttpConnectionManager) (routing, bool) {
	c := m.GetRouteConfig()
	if name := m.GetRds().GetRouteConfigName(); name != "" {
		if c = w.r.Routes[name]; c == nil {
			w.step(StageHost, name, "the route configuration is not there")
			w.end(Outcome{Kind: Answered, Status: 404, Reason: "no route configuration " + name})
			return routing{}, false
		}
	}
	to := routing{config: c}
	if to.host = hostOf(c, w.q.Host); to.host == nil {
		w.step(StageHost, "", fmt.Sprintf("none of %s has the domain %q", c.GetName(), w.q.Host))
		return to, true
	}
	w.step(StageHost, to.host.GetName(), fmt.Sprintf("of %s, for %q", c.GetName(), w.q.Host), w.hostObjects(c.GetName(), to.host)...)
	to.route = w.choose(to.host)
	return to, true
}

// discovered returns the configuration of a filter that is delivered apart.
func (w *walker) discovered(name string, d *corev3.ExtensionConfigSource) *anypb.Any {
	if e := w.r.Extensions[name]; e != nil {
		return e.GetTypedConfig()
	}
	return d.GetDefaultConfig()
}

// override returns the configuration that the route, its virtual host or its route configuration has for a filter, nil
// if none has one.
func (to routing) override(filter string) proto.Message {
	for _, set := range []map[string]*anypb.Any{
		to.route.GetTypedPerFilterConfig(), to.host.GetTypedPerFilterConfig(), to.config.GetTypedPerFilterConfig(),
	} {
		if a := set[filter]; a != nil {
			return opened(a)
		}
	}
	return nil
}

// filter lets one HTTP filter look at the request, and tells whether it goes on.
func (w *walker) filter(f *hcmv3.HttpFilter, to routing) bool {
	a, off := f.GetTypedConfig(), f.GetDisabled()
	if f.GetConfigDiscovery() != nil {
		a = w.discovered(f.GetName(), f.GetConfigDiscovery())
	}
	own := to.override(f.GetName())
	if c, ok := own.(*routev3.FilterConfig); ok {
		off, own = c.GetDisabled(), opened(c.GetConfig())
	} else if own != nil {
		off = false
	}
	if off {
		return true
	}
	switch m := opened(a).(type) {
	case *routerv3.Router:
		w.act(to)
		return false
	case *httprbacv3.RBAC:
		if c, ok := own.(*httprbacv3.RBACPerRoute); ok {
			m = c.GetRbac()
		}
		return w.enforce(StageHTTP, f.GetName(), m.GetRules(), m.GetShadowRules())
	case *jwtv3.JwtAuthentication:
		return w.authenticate(f.GetName(), m)
	case *faultv3.HTTPFault:
		if c, ok := own.(*faultv3.HTTPFault); ok {
			m = c
		}
		return w.fault(f.GetName(), m)
	case *corsv3.Cors:
		c, _ := own.(*corsv3.CorsPolicy)
		return w.cors(f.GetName(), c)
	case *authzv3.ExtAuthz:
		w.step(StageHTTP, f.GetName(), "asks "+authorizer(m)+"; taken to allow")
	default:
		w.names = w.names || f.GetName() == filterALPN
		if reportable(f.GetName()) {
			w.step(StageHTTP, f.GetName(), "taken to let the request pass", extensionObject(f.GetName())...)
		}
	}
	return true
}

// filterALPN puts the mesh's names of protocols into the handshake with the next proxy.
const filterALPN = "istio.alpn"

// reportable tells whether a filter of unknown effect may change what becomes of a request.
func reportable(name string) bool {
	switch name {
	case "istio.metadata_exchange", "istio.stats", filterALPN, "envoy.filters.http.grpc_stats", "envoy.filters.http.grpc_web":
		return false
	}
	return true
}

func authorizer(m *authzv3.ExtAuthz) string {
	for _, n := range []string{
		m.GetGrpcService().GetEnvoyGrpc().GetClusterName(), m.GetGrpcService().GetGoogleGrpc().GetTargetUri(), m.GetHttpService().GetServerUri().GetCluster(),
	} {
		if n != "" {
			return n
		}
	}
	return "an authorizer"
}

// fault reports delays and aborts. An abort of all requests ends the walk.
func (w *walker) fault(name string, m *faultv3.HTTPFault) bool {
	if m.GetDelay() == nil && m.GetAbort() == nil || !w.headersMatch(m.GetHeaders()) {
		return true
	}
	if d := m.GetDelay(); d != nil {
		w.step(StageHTTP, name, fmt.Sprintf("delays %s of the requests by %v", fraction(d.GetPercentage()), d.GetFixedDelay().AsDuration()))
	}
	a := m.GetAbort()
	if a == nil {
		return true
	}
	text := fmt.Sprintf("aborts %s of the requests with status %d", fraction(a.GetPercentage()), a.GetHttpStatus())
	if a.GetHttpStatus() == 0 {
		text = fmt.Sprintf("aborts %s of the requests with gRPC status %d", fraction(a.GetPercentage()), a.GetGrpcStatus())
	}
	w.step(StageHTTP, name, text)
	if shareOf(a.GetPercentage()) < 100 {
		return true
	}
	status := int(a.GetHttpStatus())
	if status == 0 {
		status = 200 // a gRPC status is in the trailers
	}
	w.end(Outcome{Kind: Answered, Status: status, By: name, Reason: "fault injection"})
	return false
}

// cors answers preflight requests.
func (w *walker) cors(name string, c *corsv3.CorsPolicy) bool {
	origin, has := w.q.header("origin")
	if c == nil || !has {
		return true
	}
	allowed := false
	for _, m := range c.GetAllowOriginStringMatch() {
		allowed = allowed || matchString(m, origin)
	}
	_, asks := w.q.header("access-control-request-method")
	switch {
	case !allowed:
		w.step(StageHTTP, name, "the origin "+origin+" is not allowed")
	case w.q.Method == "OPTIONS" && asks:
		w.step(StageHTTP, name, "answers the preflight request")
		w.end(Outcome{Kind: Answered, Status: 200, By: name, Reason: "preflight request"})
		return false
	default:
		w.step(StageHTTP, name, "the origin "+origin+" is allowed")
	}
	return true
}
