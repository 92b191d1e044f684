package route

import (
	"regexp"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// redirect returns the redirection, or nil for a code that no redirection has. The port to name is the one written, or
// that of the listener; the scheme's own port is not named.
func redirect(in *networking.HTTPRedirect, listen uint32, tls bool) *routev3.RedirectAction {
	out := &routev3.RedirectAction{HostRedirect: in.GetAuthority()}
	switch in.GetRedirectCode() {
	case 0, 301:
		out.ResponseCode = routev3.RedirectAction_MOVED_PERMANENTLY
	case 302:
		out.ResponseCode = routev3.RedirectAction_FOUND
	case 303:
		out.ResponseCode = routev3.RedirectAction_SEE_OTHER
	case 307:
		out.ResponseCode = routev3.RedirectAction_TEMPORARY_REDIRECT
	case 308:
		out.ResponseCode = routev3.RedirectAction_PERMANENT_REDIRECT
	default:
		return nil
	}
	out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: in.GetUri()}
	if in.GetPrefixRewrite() != "" {
		out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: in.GetPrefixRewrite()}
	}
	scheme := in.GetScheme()
	if scheme != "" {
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: scheme}
	} else if scheme = "http"; tls {
		scheme = "https"
	}
	switch p := in.GetRedirectPort().(type) {
	case *networking.HTTPRedirect_Port:
		out.PortRedirect = p.Port
	case *networking.HTTPRedirect_DerivePort:
		if p.DerivePort == networking.HTTPRedirect_FROM_REQUEST_PORT {
			out.PortRedirect = listen
		}
	}
	if out.PortRedirect == 80 && scheme == "http" || out.PortRedirect == 443 && scheme == "https" {
		out.PortRedirect = 0
	}
	return out
}

// directResponse returns the response, or nil for a body that is too large.
func directResponse(in *networking.HTTPDirectResponse) *routev3.DirectResponseAction {
	out := &routev3.DirectResponseAction{Status: in.GetStatus()}
	switch b := in.GetBody().GetSpecifier().(type) {
	case *networking.HTTPBody_String_:
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: b.String_}}
	case *networking.HTTPBody_Bytes:
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: b.Bytes}}
	}
	if len(out.GetBody().GetInlineString())+len(out.GetBody().GetInlineBytes()) > maxDirectResponse {
		return nil
	}
	return out
}

// forward returns the action that sends requests on to the rule's destinations, and the header changes that belong to
// the whole route.
func (t *translator) forward(r *networking.HTTPRoute, own headerChanges) (*routev3.RouteAction, headerChanges) {
	out := &routev3.RouteAction{RequestMirrorPolicies: t.mirrors(r), AppendXForwardedHost: t.forwardedHost}
	t.setTimeout(out, r.GetTimeout())
	setRewrite(out, r, t.gatewayAPI)
	hashed := false
	if len(r.GetRoute()) == 1 {
		d := r.GetRoute()[0]
		out.ClusterSpecifier = &routev3.RouteAction_Cluster{Cluster: t.cluster(d.GetDestination())}
		own = own.then(newHeaderChanges(d.GetHeaders()))
		hashed = t.addHash(out, d.GetDestination())
	} else {
		t.setWeighted(out, r.GetRoute())
	}
	policy := r.GetRetries()
	if policy == nil {
		policy = t.c.Mesh().Config.GetDefaultHttpRetryPolicy()
	}
	out.RetryPolicy = retries(policy, hashed)
	if authority := r.GetRewrite().GetAuthority(); authority != "" {
		own.authority = authority
	}
	if own.authority != "" {
		out.HostRewriteSpecifier = &routev3.RouteAction_HostRewriteLiteral{HostRewriteLiteral: own.authority}
	}
	if t.gatewayAPI {
		out.ClusterNotFoundResponseCode = routev3.RouteAction_INTERNAL_SERVER_ERROR
	}
	return out, own
}

// timeoutForm is the way to write that callers' own gRPC deadlines count up to the timeout.
type timeoutForm uint8

const (
	istioForm timeoutForm = iota // max_grpc_timeout, which Istio's proxies are used to
	stockForm                    // max_stream_duration with a limit for the header, where there is no timeout: nothing deprecated
	grpcForm                     // gRPC clients know only max_stream_duration
)

func formOf(c *view.Context) timeoutForm {
	if c.Stock() {
		return stockForm
	}
	return istioForm
}

// setTimeout limits a request's duration, which without a timeout is unlimited.
func (t *translator) setTimeout(out *routev3.RouteAction, timeout *durationpb.Duration) {
	d := duration(timeout)
	if d == nil {
		d = durationpb.New(0)
	}
	out.Timeout = d
	switch t.form {
	case stockForm:
		if d.AsDuration() > 0 {
			return // beside max_stream_duration Envoy would ignore the timeout; a gRPC client ends at its deadline itself
		}
		out.MaxStreamDuration = &routev3.RouteAction_MaxStreamDuration{
			MaxStreamDuration: durationpb.New(0), GrpcTimeoutHeaderMax: d,
		}
	case grpcForm:
		out.MaxStreamDuration = &routev3.RouteAction_MaxStreamDuration{MaxStreamDuration: d}
	default:
		out.MaxGrpcTimeout = d //nolint:staticcheck // deprecated, and what these proxies have always got
	}
}

func setRewrite(out *routev3.RouteAction, r *networking.HTTPRoute, gatewayAPI bool) {
	in := r.GetRewrite()
	switch {
	case in.GetUriRegexRewrite() != nil:
		out.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern: regex(in.GetUriRegexRewrite().GetMatch()), Substitution: in.GetUriRegexRewrite().GetRewrite(),
		}
	case gatewayAPI && in.GetUri() == "/":
		// A whole-segment prefix takes its slash along: put it back, and not twice.
		prefix := ""
		if len(r.GetMatch()) > 0 {
			prefix = r.GetMatch()[0].GetUri().GetPrefix()
		}
		out.RegexRewrite = &matcherv3.RegexMatchAndSubstitute{
			Pattern: regex("^" + regexp.QuoteMeta(prefix) + "(/?)(.*)"), Substitution: `/\2`,
		}
	default:
		out.PrefixRewrite = in.GetUri()
	}
}

// setWeighted splits requests by weight. Without any weight nobody may get them.
func (t *translator) setWeighted(out *routev3.RouteAction, destinations []*networking.HTTPRouteDestination) {
	split := &routev3.WeightedCluster{}
	var sum uint64
	for _, d := range destinations {
		sum += uint64(max(d.GetWeight(), 0)) //nolint:gosec // not negative
	}
	for _, d := range destinations {
		if d.GetWeight() <= 0 {
			continue
		}
		h := newHeaderChanges(d.GetHeaders())
		w := &routev3.WeightedCluster_ClusterWeight{
			Name: t.cluster(d.GetDestination()), Weight: wrapperspb.UInt32(traffic.Share(uint32(d.GetWeight()), sum)),
			RequestHeadersToAdd: h.requestAdd, RequestHeadersToRemove: h.requestRemove,
			ResponseHeadersToAdd: h.responseAdd, ResponseHeadersToRemove: h.responseRemove,
		}
		if h.authority != "" {
			w.HostRewriteSpecifier = &routev3.WeightedCluster_ClusterWeight_HostRewriteLiteral{HostRewriteLiteral: h.authority}
		}
		split.Clusters = append(split.Clusters, w)
		t.addHash(out, d.GetDestination())
	}
	out.ClusterSpecifier = &routev3.RouteAction_WeightedClusters{WeightedClusters: split}
}

// addHash appends the hash policy of a destination, and tells whether there is one.
func (t *translator) addHash(out *routev3.RouteAction, d *networking.Destination) bool {
	p := hashPolicy(t.hash(d))
	if p == nil {
		return false
	}
	out.HashPolicy = append(out.HashPolicy, p)
	return true
}

func (t *translator) mirrors(r *networking.HTTPRoute) []*routev3.RouteAction_RequestMirrorPolicy {
	var out []*routev3.RouteAction_RequestMirrorPolicy
	if r.GetMirror() != nil {
		percent := r.GetMirrorPercentage()
		if legacy := r.GetMirrorPercent(); percent == nil && legacy != nil { //nolint:staticcheck // users still write it
			if legacy.GetValue() > 0 {
				out = append(out, t.mirror(r.GetMirror(), &corev3.RuntimeFractionalPercent{
					DefaultValue: perHundred(legacy.GetValue()),
				}))
			}
		} else if share := mirrored(percent); share != nil {
			out = append(out, t.mirror(r.GetMirror(), share))
		}
	}
	for _, m := range r.GetMirrors() {
		if share := mirrored(m.GetPercentage()); share != nil && m.GetDestination() != nil {
			out = append(out, t.mirror(m.GetDestination(), share))
		}
	}
	return out
}

// mirrored returns the share of requests to mirror: all if nothing is said, nil for none.
func mirrored(p *networking.Percent) *corev3.RuntimeFractionalPercent {
	switch {
	case p == nil:
		return &corev3.RuntimeFractionalPercent{DefaultValue: perHundred(100)}
	case p.GetValue() <= 0:
		return nil
	}
	return &corev3.RuntimeFractionalPercent{DefaultValue: perMillion(p)}
}

func (t *translator) mirror(
	d *networking.Destination, share *corev3.RuntimeFractionalPercent,
) *routev3.RouteAction_RequestMirrorPolicy {
	return &routev3.RouteAction_RequestMirrorPolicy{
		Cluster: t.cluster(d), RuntimeFraction: share, TraceSampled: wrapperspb.Bool(false),
		DisableShadowHostSuffixAppend: t.plainShadows,
	}
}
