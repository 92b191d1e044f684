package route

import (
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// hostUnit names one virtual host: all that a plan decides about it. It is comparable, and equal for all proxies that
// get the same virtual host.
type hostUnit struct {
	name string
	// service is the zero key for hosts that no service has.
	service model.ServiceKey
	// ruleNamespace and rule name the VirtualService; without one there is the default route.
	ruleNamespace, rule string
	// targets are destinations that are not simply host and listening port; see planner.targets.
	targets string
	// domains, in lines, are given where they are not just the usual ones of a service.
	domains string
	reach   reach
	// listen is the listening port, 0 where all ports are carried; port is the virtual host's.
	listen, port uint32
	headers      headerFlags
	// grpc is set for gRPC clients without a proxy.
	grpc bool
}

// virtualHostPart encodes a virtual host; it is nil if there is nothing to serve.
func virtualHostPart(c *view.Context, u hostUnit) *translate.Part {
	h := virtualHost(c, u)
	if h == nil {
		return nil
	}
	p, err := translate.EncodePart(h.Name, h)
	if err != nil {
		return nil
	}
	return p
}

func virtualHost(c *view.Context, u hostUnit) *routev3.VirtualHost {
	out := &routev3.VirtualHost{Name: u.name, IncludeRequestAttemptCount: u.headers.attemptCount}
	var service *model.Service
	if u.service.Host != "" {
		service = c.Service(u.service)
	}
	switch {
	case u.domains != "":
		out.Domains = strings.Split(u.domains, "\n")
	case service != nil:
		out.Domains = u.usualDomains(c, service)
	}
	if service != nil {
		out.TypedPerFilterConfig = sessionFilters(c, service)
	}
	if u.rule != "" {
		rule := c.VirtualService(u.ruleNamespace, u.rule)
		if rule == nil {
			return nil
		}
		out.Routes = newTranslator(c, rule, u).routes()
	} else {
		out.Routes = []*routev3.Route{u.defaultRoute(c)}
	}
	if u.grpc {
		fitGRPC(out)
	}
	return valid(out)
}

// valid leaves out of h what Envoy would refuse, and returns nil if nothing is left.
func valid(h *routev3.VirtualHost) *routev3.VirtualHost {
	h.Domains = unique(h.Domains)
	if h.ValidateAll() != nil {
		h.Domains = slices.DeleteFunc(h.Domains, func(d string) bool {
			return (&routev3.VirtualHost{Name: h.Name, Domains: []string{d}}).ValidateAll() != nil
		})
	}
	if h.ValidateAll() != nil {
		return nil
	}
	return h
}

// unique returns domains with each once, as Envoy compares them: without regard to case.
func unique(domains []string) []string {
	out := domains[:0:0]
	for i, d := range domains {
		if !slices.ContainsFunc(domains[:i], func(other string) bool { return strings.EqualFold(d, other) }) {
			out = append(out, d)
		}
	}
	return out
}

// usualDomains returns the domains of a plain service: those that planner.claimStandard claims.
func (u hostUnit) usualDomains(c *view.Context, s *model.Service) []string {
	out := append(make([]string, 0, 6), s.Host)
	if settingOn(c, "PILOT_ENABLE_ABSOLUTE_FQDN_VHOST_DOMAIN", true) && !isAddress(s.Host) {
		out = append(out, s.Host+".")
	}
	out = append(out, shortNames(s.Host, u.reach)...)
	return append(out, c.Addresses(s)...)
}

// defaultRoute sends everything to the service's own cluster.
func (u hostUnit) defaultRoute(c *view.Context) *routev3.Route {
	t := &translator{c: c, form: u.form(c)}
	action := &routev3.RouteAction{
		ClusterSpecifier: &routev3.RouteAction_Cluster{Cluster: clusterName(u.service.Host, "", u.port)},
		RetryPolicy:      retries(c.Mesh().Config.GetDefaultHttpRetryPolicy(), false),
	}
	t.setTimeout(action, nil)
	if rule := c.DestinationRule(u.service.Host, u.service.Namespace); rule != nil {
		if p := hashPolicy(destinationHash(rule.Spec, "", u.port)); p != nil {
			action.HashPolicy = []*routev3.RouteAction_HashPolicy{p}
		}
	}
	return &routev3.Route{
		Name: defaultRoute, Match: matchAll(),
		Decorator: &routev3.Decorator{Operation: u.service.Host + ":" + strconv.FormatUint(uint64(u.port), 10) + "/*"},
		Action:    &routev3.Route_Route{Route: action},
	}
}

// form returns how durations are written for the unit's clients.
func (u hostUnit) form(c *view.Context) timeoutForm {
	if u.grpc {
		return grpcForm
	}
	return formOf(c)
}

// cluster returns how destinations of the unit's rule become cluster names: by the port written, else the port of the
// service's only one, else the port that the request came for.
func (u hostUnit) cluster() func(*networking.Destination) string {
	targets := parseTargets(u.targets)
	return func(d *networking.Destination) string {
		if d.GetHost() == "" {
			return invalidBackend
		}
		to := target{host: d.GetHost(), port: u.listen}
		if t, ok := targets[d.GetHost()]; ok {
			to = t
		}
		if to.port == 0 {
			to.port = u.port
		}
		if d.GetPort() != nil {
			to.port = d.GetPort().GetNumber()
		}
		return clusterName(to.host, d.GetSubset(), to.port)
	}
}

type target struct {
	host string
	port uint32
}

// parseTargets reads what planner.targets writes.
func parseTargets(text string) map[string]target {
	if text == "" {
		return nil
	}
	out := map[string]target{}
	for line := range strings.SplitSeq(text, "\n") {
		host, to, _ := strings.Cut(line, "=")
		i := strings.LastIndexByte(to, ':')
		if i < 0 {
			continue
		}
		port, err := strconv.ParseUint(to[i+1:], 10, 32)
		if err != nil {
			continue
		}
		out[host] = target{to[:i], uint32(port)}
	}
	return out
}

func sessionFilters(c *view.Context, s *model.Service) map[string]*anypb.Any {
	if !c.Settings().EnablePersistentSessionFilter {
		return nil
	}
	state := sessionState(s)
	if state == nil {
		return nil
	}
	return map[string]*anypb.Any{sessionFilter: pack(state)}
}
