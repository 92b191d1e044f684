package route

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/structpb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// invalidBackend is what the Gateway API's broken references lead to: no cluster has that name.
const invalidBackend = "UnknownService"

// translator turns one rule's HTTP routes into Envoy's, for one place: a port of a sidecar.
type translator struct {
	c      *view.Context
	rule   *model.VirtualService
	filter *ruleFilter
	// listen is the port that redirects and operation names state.
	listen uint32
	tls    bool
	// cluster names a destination's cluster, hash says what it hashes by.
	cluster func(*networking.Destination) string
	hash    func(*networking.Destination) *consistentHash

	gatewayAPI, forwardedHost bool
	form                      timeoutForm
	// plainShadows leaves the host of mirrored requests as it is.
	plainShadows bool
}

func newTranslator(c *view.Context, rule *model.VirtualService, u hostUnit) *translator {
	return &translator{
		c: c, rule: rule, filter: newRuleFilter(c, u.port), listen: u.listen,
		cluster: u.cluster(), hash: func(d *networking.Destination) *consistentHash { return hashOf(c, d) },
		gatewayAPI: rule.FromGatewayAPI, form: u.form(c), forwardedHost: u.headers.forwardedHost,
		plainShadows: settingOn(c, "DISABLE_SHADOW_HOST_SUFFIX", true),
	}
}

// hashOf returns the consistent hash of a destination of a rule. The rule that applies depends on whose service it is;
// where several namespaces have one of that host, the scope says whose is meant.
func hashOf(c *view.Context, d *networking.Destination) *consistentHash {
	var namespace string
	switch services := c.ServicesOfHost(d.GetHost()); len(services) {
	case 0:
	case 1:
		namespace = services[0].Namespace
	default:
		if s := c.ScopedService(d.GetHost()); s != nil {
			namespace = s.Namespace
		}
	}
	rule := c.DestinationRule(d.GetHost(), namespace)
	if rule == nil {
		return nil
	}
	return destinationHash(rule.Spec, d.GetSubset(), d.GetPort().GetNumber())
}

// routes returns the rule's routes in order, up to the first that leaves nothing for later ones.
func (t *translator) routes() []*routev3.Route {
	var out []*routev3.Route
	for _, r := range t.rule.Spec.GetHttp() {
		matches := r.GetMatch()
		if len(matches) == 0 {
			matches = []*networking.HTTPMatchRequest{nil}
		}
		for _, m := range matches {
			if !t.filter.pass(m) {
				continue
			}
			route := t.route(r, m)
			if route == nil {
				continue
			}
			out = append(out, route)
			if matchesAll(route.GetMatch()) {
				return out
			}
		}
	}
	return out
}

// route returns one route, or nil if Envoy would refuse it: one bad route must not cost the others.
func (t *translator) route(r *networking.HTTPRoute, m *networking.HTTPMatchRequest) *routev3.Route {
	if !validText(r) {
		return nil
	}
	out := &routev3.Route{
		Name:                 routeName(r.GetName(), m.GetName()),
		Match:                routeMatch(m, t.gatewayAPI),
		StatPrefix:           m.GetStatPrefix(),
		Metadata:             ruleMetadata(t.rule),
		TypedPerFilterConfig: routeFilters(r),
	}
	own := newHeaderChanges(r.GetHeaders())
	switch {
	case r.GetRedirect() != nil:
		action := redirect(r.GetRedirect(), t.listen, t.tls)
		if action == nil {
			return nil
		}
		out.Action = &routev3.Route_Redirect{Redirect: action}
	case r.GetDirectResponse() != nil:
		action := directResponse(r.GetDirectResponse())
		if action == nil {
			return nil
		}
		out.Action = &routev3.Route_DirectResponse{DirectResponse: action}
	case noneWeighted(r.GetRoute()):
		out.Action = &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: 500}}
	default:
		var action *routev3.RouteAction
		action, own = t.forward(r, own)
		out.Action = &routev3.Route_Route{Route: action}
	}
	out.RequestHeadersToAdd, out.RequestHeadersToRemove = own.requestAdd, own.requestRemove
	out.ResponseHeadersToAdd, out.ResponseHeadersToRemove = own.responseAdd, own.responseRemove
	out.Decorator = &routev3.Decorator{Operation: t.operation(out)}
	if translate.Check(out) != nil {
		return nil
	}
	return out
}

// noneWeighted tells whether nobody is to get the requests: no destination, or several without any weight.
func noneWeighted(destinations []*networking.HTTPRouteDestination) bool {
	if len(destinations) == 1 {
		return false
	}
	for _, d := range destinations {
		if d.GetWeight() > 0 {
			return false
		}
	}
	return true
}

func routeName(route, match string) string {
	if route == "" || match == "" {
		return route + match
	}
	return route + "." + match
}

// operation names a route in traces: its destination, or the rule where that is not one, and its path.
func (t *translator) operation(r *routev3.Route) string {
	path := "/*"
	switch p := r.GetMatch().GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		path = p.Prefix + "*"
	case *routev3.RouteMatch_Path:
		path = p.Path
	case *routev3.RouteMatch_SafeRegex:
		path = p.SafeRegex.GetRegex()
	}
	if parts := strings.Split(r.GetRoute().GetCluster(), "|"); len(parts) == 4 {
		return parts[3] + ":" + parts[1] + path
	}
	return t.rule.Name + ":" + strconv.FormatUint(uint64(t.listen), 10) + path
}

// ruleMetadata names the rule that made a route.
func ruleMetadata(v *model.VirtualService) *corev3.Metadata {
	path := "/apis/networking.istio.io/v1/namespaces/" + v.Namespace + "/virtual-service/" + v.Name
	return &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{
		"istio": {Fields: map[string]*structpb.Value{"config": structpb.NewStringValue(path)}},
	}}
}
