package validate

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
)

const (
	// A direct response's body is part of every proxy's configuration.
	maxBody, largeBody = 1 << 20, 100 << 10
	claimHeader        = "@request.auth.claims"
)

func (c *checker) httpMatch(field string, m *networking.HTTPMatchRequest, b binding) {
	for _, s := range []struct {
		name  string
		match *networking.StringMatch
		empty bool // an empty prefix matches everything, and may
	}{
		{"uri", m.Uri, true},
		{"scheme", m.Scheme, false},
		{"method", m.Method, false},
		{"authority", m.Authority, false},
	} {
		c.stringMatch(field+"."+s.name, s.match, s.empty)
	}
	c.headerMatches(field+".headers", m.Headers, b)
	c.headerMatches(field+".withoutHeaders", m.WithoutHeaders, b)
	for _, name := range sortedKeys(m.QueryParams) {
		c.stringMatch(entry(field+".queryParams", name), m.QueryParams[name], false)
	}
	c.matchScope(field, l4Match{port: m.Port, labels: m.SourceLabels, gateways: m.Gateways, namespace: m.SourceNamespace})
}

func (c *checker) headerMatches(field string, headers map[string]*networking.StringMatch, b binding) {
	for _, name := range sortedKeys(headers) {
		at := entry(field, name)
		switch {
		case strings.HasPrefix(name, claimHeader):
			if !b.gateway {
				c.fail(at, "claims of a JWT are matched at gateways only")
			}
		case !headerName(name):
			c.fail(at, "%q is not the name of a header", name)
		}
		c.stringMatch(at, headers[name], false)
	}
}

func (c *checker) stringMatch(field string, m *networking.StringMatch, emptyPrefix bool) {
	switch t := m.GetMatchType().(type) {
	case *networking.StringMatch_Prefix:
		if t.Prefix == "" && !emptyPrefix {
			c.fail(field+".prefix", "must not be empty")
		}
	case *networking.StringMatch_Regex:
		switch t.Regex {
		case "":
			c.fail(field+".regex", "must not be empty")
		case "*": // no regular expression, but in use for "is present"
		default:
			c.failIf(field+".regex", regularExpression(t.Regex))
		}
	}
}

func isAuthority(header string) bool {
	return strings.EqualFold(header, "host") || header == ":authority"
}

func setsAuthority(h *networking.Headers) bool {
	for _, m := range []map[string]string{h.GetRequest().GetSet(), h.GetRequest().GetAdd()} {
		for name := range m {
			if isAuthority(name) {
				return true
			}
		}
	}
	return false
}

func (c *checker) headerOperations(field string, h *networking.Headers) {
	if h == nil {
		return
	}
	for _, ops := range []struct {
		name      string
		ops       *networking.Headers_HeaderOperations
		authority bool
	}{{"request", h.Request, true}, {"response", h.Response, false}} {
		for _, set := range []struct {
			name    string
			headers map[string]string
		}{{"set", ops.ops.GetSet()}, {"add", ops.ops.GetAdd()}} {
			for _, name := range sortedKeys(set.headers) {
				at := entry(field+"."+ops.name+"."+set.name, name)
				c.failIf(at, headerOperation(name, ops.authority))
				if !variables(set.headers[name]) {
					c.fail(at, "%q has a %% without its partner; write %%%% for a plain one", set.headers[name])
				} else if !format.Valid(set.headers[name]) {
					c.fail(at, "Envoy does not understand %q", set.headers[name])
				}
			}
		}
		for i, name := range ops.ops.GetRemove() {
			c.failIf(index(field+"."+ops.name+".remove", i), headerOperation(name, false))
		}
	}
}

func headerOperation(name string, authority bool) error {
	switch {
	case authority && isAuthority(name):
		return nil
	case isAuthority(name):
		return fmt.Errorf("the header %q cannot be changed here", name)
	case strings.HasPrefix(name, ":"):
		return fmt.Errorf("the pseudo-header %q cannot be changed", name)
	case !headerName(name):
		return fmt.Errorf("%q is not the name of a header", name)
	}
	return nil
}

func (c *checker) redirect(field string, r *networking.HTTPRedirect) {
	if r == nil {
		return
	}
	if r.Uri == "" && r.Authority == "" && r.RedirectPort == nil && r.Scheme == "" && r.RedirectCode == 0 {
		c.fail(field, "uri, authority, port, scheme or redirectCode is needed")
	}
	if r.Scheme != "" && r.Scheme != "http" && r.Scheme != "https" {
		c.fail(field+".scheme", "%q is neither http nor https", r.Scheme)
	}
	if p, ok := r.RedirectPort.(*networking.HTTPRedirect_Port); ok {
		c.failIf(field+".port", portNumber(p.Port))
	}
	if code := r.RedirectCode; code != 0 && (code < 300 || code > 399) {
		c.fail(field+".redirectCode", "%d is not the status of a redirect", code)
	}
}

func (c *checker) directResponse(field string, d *networking.HTTPDirectResponse) {
	if d == nil {
		return
	}
	if d.Status < 200 || d.Status > 599 {
		c.fail(field+".status", "%d is not between 200 and 599", d.Status)
	}
	size := max(len(d.GetBody().GetString_()), len(d.GetBody().GetBytes()))
	switch {
	case size > maxBody:
		c.fail(field+".body", "%d bytes are more than %d", size, maxBody)
	case size > largeBody:
		c.warn(field+".body", "%d bytes are part of each proxy's configuration; keep it below %d", size, largeBody)
	}
}

func (c *checker) rewrite(field string, r *networking.HTTPRewrite) {
	if r == nil {
		return
	}
	if r.Uri == "" && r.Authority == "" && r.UriRegexRewrite == nil {
		c.fail(field, "uri, uriRegexRewrite or authority is needed")
	}
	x := r.UriRegexRewrite
	if x == nil {
		return
	}
	if r.Uri != "" {
		c.fail(field+".uriRegexRewrite", "excludes uri")
	}
	if x.Match == "" {
		c.fail(field+".uriRegexRewrite.match", "must not be empty")
	}
	c.failIf(field+".uriRegexRewrite.match", regularExpression(x.Match))
}

func (c *checker) fault(field string, f *networking.HTTPFaultInjection) {
	if f == nil {
		return
	}
	if f.Abort == nil && f.Delay == nil {
		c.fail(field, "abort or delay is needed")
	}
	if d := f.Delay; d != nil {
		c.failIf(field+".delay.fixedDelay", duration(d.GetFixedDelay()))
		if d.HttpDelayType == nil {
			c.fail(field+".delay", "fixedDelay is needed")
		}
		if d.Percentage != nil {
			c.failIf(field+".delay.percentage.value", percent(d.Percentage.Value))
		}
		if n := d.Percent; n < 0 || n > 100 { //nolint:staticcheck // a deprecated field has rules, too
			c.fail(field+".delay.percent", "%d is not a percentage", n)
		}
	}
	if f.Abort != nil {
		c.abort(field+".abort", f.Abort)
	}
}

// The status names of gRPC.
func grpcStatuses() []string {
	return []string{
		"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
		"PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED",
		"INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
	}
}

func (c *checker) abort(field string, a *networking.HTTPFaultInjection_Abort) {
	switch t := a.ErrorType.(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		if t.HttpStatus < 200 || t.HttpStatus > 599 {
			c.fail(field+".httpStatus", "%d is not between 200 and 599", t.HttpStatus)
		}
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		if !slices.Contains(grpcStatuses(), strings.ToUpper(t.GrpcStatus)) {
			c.fail(field+".grpcStatus", "%q is not the name of a gRPC status", t.GrpcStatus)
		}
	case *networking.HTTPFaultInjection_Abort_Http2Error:
		c.fail(field+".http2Error", "not supported")
	default:
		c.warn(field, "without httpStatus or grpcStatus nothing is aborted")
	}
	if a.Percentage != nil {
		c.failIf(field+".percentage.value", percent(a.Percentage.Value))
	}
}

func (c *checker) cors(field string, p *networking.CorsPolicy) {
	if p == nil {
		return
	}
	for i, o := range p.AllowOrigins {
		at := index(field+".allowOrigins", i)
		if o.GetMatchType() == nil {
			c.fail(at, "exact, prefix or regex is needed")
		}
		c.stringMatch(at, o, false)
	}
	for i, m := range p.AllowMethods {
		c.failIf(index(field+".allowMethods", i), method(m))
	}
	for name, headers := range map[string][]string{"allowHeaders": p.AllowHeaders, "exposeHeaders": p.ExposeHeaders} {
		for i, h := range headers {
			if h != "*" && !headerName(h) {
				c.fail(index(field+"."+name, i), "%q is not the name of a header", h)
			}
		}
	}
	if d := p.MaxAge; d != nil {
		c.failIf(field+".maxAge", duration(d))
		if !wholeSeconds(d.AsDuration()) {
			c.fail(field+".maxAge", "%v is not a number of seconds", d.AsDuration())
		}
	}
}

func method(m string) error {
	switch m {
	case "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "CONNECT", "OPTIONS", "TRACE", "*":
		return nil
	}
	return errors.New("not an HTTP method: " + m)
}
