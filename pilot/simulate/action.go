package simulate

import (
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
)

// act carries out what the route says.
func (w *walker) act(to routing) {
	if to.host != nil && to.host.GetRequireTls() == routev3.VirtualHost_ALL && !w.q.TLS {
		w.end(Outcome{Kind: Answered, Status: 301, By: to.host.GetName(), Reason: "redirect to HTTPS", Location: "https://" + withoutPort(w.q.Host) + w.q.Path})
		return
	}
	if to.route == nil {
		w.end(Outcome{Kind: Answered, Status: 404, Reason: "no route"})
		return
	}
	switch a := to.route.GetAction().(type) {
	case *routev3.Route_Redirect:
		o := Outcome{Kind: Answered, Status: redirectStatus(a.Redirect), By: to.route.GetName(), Reason: "redirect", Location: w.location(to.route, a.Redirect)}
		w.step(StageAction, "redirect", fmt.Sprintf("%d to %s", o.Status, o.Location), routeObjects(to.route)...)
		w.end(o)
	case *routev3.Route_DirectResponse:
		w.step(StageAction, "direct response", strconv.Itoa(int(a.DirectResponse.GetStatus())), routeObjects(to.route)...)
		w.end(Outcome{Kind: Answered, Status: int(a.DirectResponse.GetStatus()), By: to.route.GetName(), Reason: "direct response"})
	case *routev3.Route_Route:
		w.forward(to, a.Route)
	default:
		w.end(Outcome{Kind: Answered, Status: 500, By: to.route.GetName(), Reason: "the route has no action that is known here"})
	}
}

func redirectStatus(r *routev3.RedirectAction) int {
	switch r.GetResponseCode() {
	case routev3.RedirectAction_FOUND:
		return 302
	case routev3.RedirectAction_SEE_OTHER:
		return 303
	case routev3.RedirectAction_TEMPORARY_REDIRECT:
		return 307
	case routev3.RedirectAction_PERMANENT_REDIRECT:
		return 308
	}
	return 301
}

// location returns where a redirect leads.
func (w *walker) location(route *routev3.Route, r *routev3.RedirectAction) string {
	scheme, _ := w.q.header(":scheme")
	was := scheme
	if r.GetHttpsRedirect() {
		scheme = "https"
	} else if s := r.GetSchemeRedirect(); s != "" {
		scheme = s
	}
	host, port := w.q.Host, ""
	if h, p, err := net.SplitHostPort(w.q.Host); err == nil {
		host, port = h, p
	}
	if was != scheme && (was == "http" && port == "80" || was == "https" && port == "443") {
		port = ""
	}
	if h := r.GetHostRedirect(); h != "" {
		host, port = h, ""
	}
	if p := r.GetPortRedirect(); p != 0 {
		port = strconv.FormatUint(uint64(p), 10)
	}
	if port != "" {
		host = net.JoinHostPort(host, port)
	}
	path := w.q.Path
	switch { // an empty text is none
	case r.GetPathRedirect() != "":
		path = r.GetPathRedirect()
		if _, query, ok := strings.Cut(w.q.Path, "?"); ok && !strings.Contains(path, "?") {
			path += "?" + query
		}
	case r.GetPrefixRewrite() != "":
		path = w.rewritten(route.GetMatch(), r.GetPrefixRewrite())
	case r.GetRegexRewrite() != nil:
		path = w.substituted(r.GetRegexRewrite())
	}
	if r.GetStripQuery() {
		path, _, _ = strings.Cut(path, "?")
	}
	return scheme + "://" + host + path
}

// rewritten replaces what a match has matched of the path.
func (w *walker) rewritten(m *routev3.RouteMatch, with string) string {
	bare := w.q.bare()
	matched := len(bare) // a path or an expression matches all of it
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		matched = len(p.Prefix)
	case *routev3.RouteMatch_PathSeparatedPrefix:
		matched = len(p.PathSeparatedPrefix)
	}
	return with + w.q.Path[min(matched, len(w.q.Path)):]
}

// reference is how a substitution names a part of the expression's match, in RE2's syntax.
const reference = `\\([0-9])`

// substituted replaces every match of an expression in the path.
func (w *walker) substituted(m *matcherv3.RegexMatchAndSubstitute) string {
	bare := w.q.bare()
	r, err := regexp.Compile(m.GetPattern().GetRegex())
	if err != nil {
		return w.q.Path
	}
	with := regexp.MustCompile(reference).ReplaceAllString(strings.ReplaceAll(m.GetSubstitution(), "$", "$$"), "$${$1}")
	return r.ReplaceAllString(bare, with) + w.q.Path[len(bare):]
}

// forward sends the request on.
func (w *walker) forward(to routing, a *routev3.RouteAction) {
	w.reportPolicies(to, a)
	w.rewrite(to.route, a)
	var shares []share
	switch c := a.GetClusterSpecifier().(type) {
	case *routev3.RouteAction_Cluster:
		shares = []share{{c.Cluster, 1}}
	case *routev3.RouteAction_WeightedClusters:
		for _, one := range c.WeightedClusters.GetClusters() {
			shares = append(shares, share{one.GetName(), one.GetWeight().GetValue()})
		}
	case *routev3.RouteAction_ClusterHeader:
		name, _ := w.q.header(c.ClusterHeader)
		shares = []share{{name, 1}}
	}
	w.step(StageAction, "forward", "to "+listing(shares), routeObjects(to.route)...)
	o := Outcome{Kind: Forwarded, Destinations: w.destinations(shares)}
	for _, m := range a.GetRequestMirrorPolicies() {
		for _, d := range w.destinations([]share{{m.GetCluster(), 1}}) {
			if f := m.GetRuntimeFraction(); f != nil {
				d.Weight = shareOf(f.GetDefaultValue())
			}
			o.Mirrors = append(o.Mirrors, d)
		}
	}
	if reason := unreachable(o.Destinations); reason != "" {
		o.Kind, o.Status, o.Reason = Answered, 503, reason
	}
	w.end(o)
}

// reportPolicies says what else a route asks for.
func (w *walker) reportPolicies(to routing, a *routev3.RouteAction) {
	if a.GetTimeout() != nil && a.GetTimeout().AsDuration() > 0 {
		w.step(StageAction, "timeout", a.GetTimeout().AsDuration().String(), routeObjects(to.route)...)
	}
	retry := a.GetRetryPolicy()
	if retry == nil {
		retry = to.host.GetRetryPolicy()
	}
	if retry != nil && retry.GetNumRetries().GetValue() > 0 {
		text := fmt.Sprintf("%d on %s", retry.GetNumRetries().GetValue(), retry.GetRetryOn())
		if len(retry.GetRetriableStatusCodes()) > 0 {
			text += fmt.Sprintf(" (%v)", retry.GetRetriableStatusCodes())
		}
		w.step(StageAction, "retries", text)
	}
	for _, m := range a.GetRequestMirrorPolicies() {
		w.step(StageAction, "mirror", "to "+m.GetCluster(), routeObjects(to.route)...)
	}
}

// rewrite changes path, host and headers as the route says.
func (w *walker) rewrite(route *routev3.Route, a *routev3.RouteAction) {
	before := w.q
	switch {
	case a.GetPrefixRewrite() != "":
		w.q.Path = w.rewritten(route.GetMatch(), a.GetPrefixRewrite())
	case a.GetRegexRewrite() != nil:
		w.q.Path = w.substituted(a.GetRegexRewrite())
	}
	switch h := a.GetHostRewriteSpecifier().(type) {
	case *routev3.RouteAction_HostRewriteLiteral:
		w.q.Host = h.HostRewriteLiteral
	case *routev3.RouteAction_HostRewriteHeader:
		if v, ok := w.q.header(h.HostRewriteHeader); ok {
			w.q.Host = v
		}
	}
	if w.q.Path != before.Path || w.q.Host != before.Host {
		w.step(StageAction, "rewrite", fmt.Sprintf("%s%s becomes %s%s", before.Host, before.Path, w.q.Host, w.q.Path), routeObjects(route)...)
	}
	w.changeHeaders(route)
}

// changeHeaders sets and removes headers, those with a plain value.
func (w *walker) changeHeaders(route *routev3.Route) {
	if len(route.GetRequestHeadersToAdd())+len(route.GetRequestHeadersToRemove()) == 0 {
		return
	}
	headers := make(map[string]string, len(w.q.Headers))
	for k, v := range w.q.Headers {
		headers[strings.ToLower(k)] = v
	}
	for _, o := range route.GetRequestHeadersToAdd() {
		name := strings.ToLower(o.GetHeader().GetKey())
		if name == ":authority" || name == "host" {
			w.q.Host = o.GetHeader().GetValue()
			continue
		}
		headers[name] = o.GetHeader().GetValue()
	}
	for _, name := range route.GetRequestHeadersToRemove() {
		delete(headers, strings.ToLower(name))
	}
	w.q.Headers = headers
}
