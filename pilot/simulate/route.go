package simulate

import (
	"fmt"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	templatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
)

// choose returns the first route that matches, nil if none does.
func (w *walker) choose(v *routev3.VirtualHost) *routev3.Route {
	for i, r := range v.GetRoutes() {
		ok, text := w.matches(r.GetMatch())
		if !ok {
			continue
		}
		name := r.GetName()
		if name == "" {
			name = fmt.Sprintf("#%d of %s", i, v.GetName())
		}
		w.step(StageRoute, name, text, routeObjects(r)...)
		return r
	}
	w.step(StageRoute, "", fmt.Sprintf("none of %d matches %s %s", len(v.GetRoutes()), w.q.Method, w.q.Path))
	return nil
}

// matches evaluates a match and says what it asks for.
func (w *walker) matches(m *routev3.RouteMatch) (ok bool, text string) {
	if ok, text = w.pathMatches(m); !ok {
		return false, ""
	}
	if !w.headersMatch(m.GetHeaders()) || !w.queryMatches(m.GetQueryParameters()) {
		return false, ""
	}
	if m.GetGrpc() != nil {
		if v, _ := w.q.header("content-type"); v != "application/grpc" && !strings.HasPrefix(v, "application/grpc+") {
			return false, ""
		}
	}
	if t := m.GetTlsContext(); t != nil && t.GetPresented() != nil && t.GetPresented().GetValue() != (w.terminated && w.q.Peer != "") {
		return false, ""
	}
	for _, d := range m.GetDynamicMetadata() {
		if w.metadataMatches(d) == d.GetInvert() {
			return false, ""
		}
	}
	if n := len(m.GetHeaders()); n > 0 {
		text += fmt.Sprintf(", %d headers", n)
	}
	if n := len(m.GetQueryParameters()); n > 0 {
		text += fmt.Sprintf(", %d query parameters", n)
	}
	if f := m.GetRuntimeFraction(); f != nil {
		if shareOf(f.GetDefaultValue()) == 0 {
			return false, ""
		}
		text += ", " + fraction(f.GetDefaultValue()) + " of the requests"
	}
	return true, text
}

// pathMatches evaluates the part of a match that is about the path, without the query.
func (w *walker) pathMatches(m *routev3.RouteMatch) (ok bool, text string) {
	path := w.q.bare()
	fold := func(s string) string {
		if m.GetCaseSensitive() != nil && !m.GetCaseSensitive().GetValue() {
			return strings.ToLower(s)
		}
		return s
	}
	switch p := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		return strings.HasPrefix(fold(path), fold(p.Prefix)), "prefix " + p.Prefix
	case *routev3.RouteMatch_Path:
		return fold(path) == fold(p.Path), "path " + p.Path
	case *routev3.RouteMatch_PathSeparatedPrefix:
		rest, found := strings.CutPrefix(fold(path), fold(p.PathSeparatedPrefix))
		return found && (rest == "" || rest[0] == '/'), "path below " + p.PathSeparatedPrefix
	case *routev3.RouteMatch_SafeRegex:
		return matchRegex(p.SafeRegex.GetRegex(), path), "path matches " + p.SafeRegex.GetRegex()
	case *routev3.RouteMatch_ConnectMatcher_:
		return w.q.Method == "CONNECT", "CONNECT"
	case *routev3.RouteMatch_PathMatchPolicy:
		if t, isTemplate := opened(p.PathMatchPolicy.GetTypedConfig()).(*templatev3.UriTemplateMatchConfig); isTemplate {
			return matchTemplate(t.GetPathTemplate(), path), "path matches " + t.GetPathTemplate()
		}
	}
	return false, ""
}

// matchTemplate evaluates a URI template: "*" is one segment, "**" any number of them at the end.
func matchTemplate(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	for i, s := range want {
		if inner, ok := strings.CutPrefix(s, "{"); ok {
			_, pattern, named := strings.Cut(strings.TrimSuffix(inner, "}"), "=")
			if s = "*"; named {
				s = pattern
			}
		}
		switch {
		case s == "**":
			rest, suffix := got[min(i, len(got)):], want[i+1:]
			if len(rest) < len(suffix) {
				return false
			}
			return matchTemplate(strings.Join(suffix, "/"), strings.Join(rest[len(rest)-len(suffix):], "/"))
		case i >= len(got):
			return false
		case s == "*":
			if got[i] == "" {
				return false
			}
		case s != got[i]:
			return false
		}
	}
	return len(got) == len(want)
}
