package route

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/format"
)

// headerChanges are the operations on headers of one route or one weighted destination.
type headerChanges struct {
	requestAdd, responseAdd       []*corev3.HeaderValueOption
	requestRemove, responseRemove []string
	// authority is what the Host header is set to, or empty.
	authority string
}

func newHeaderChanges(h *networking.Headers) headerChanges {
	return headerChanges{
		requestAdd: headerValues(h.GetRequest()), requestRemove: removable(h.GetRequest().GetRemove()),
		responseAdd: headerValues(h.GetResponse()), responseRemove: removable(h.GetResponse().GetRemove()),
		authority: authorityOf(h.GetRequest()),
	}
}

// then appends the changes of b.
func (a headerChanges) then(b headerChanges) headerChanges {
	a.requestAdd = append(a.requestAdd, b.requestAdd...)
	a.responseAdd = append(a.responseAdd, b.responseAdd...)
	a.requestRemove = append(a.requestRemove, b.requestRemove...)
	a.responseRemove = append(a.responseRemove, b.responseRemove...)
	if a.authority == "" {
		a.authority = b.authority
	}
	return a
}

// headerValues returns what is set, then what is added, each by name.
func headerValues(ops *networking.Headers_HeaderOperations) []*corev3.HeaderValueOption {
	var out []*corev3.HeaderValueOption
	each := func(values map[string]string, action corev3.HeaderValueOption_HeaderAppendAction) {
		for _, k := range slices.Sorted(maps.Keys(values)) {
			if !routing(k) {
				out = append(out, &corev3.HeaderValueOption{
					Header: &corev3.HeaderValue{Key: k, Value: format.Header(values[k])}, AppendAction: action,
				})
			}
		}
	}
	each(ops.GetSet(), corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	each(ops.GetAdd(), corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
	return out
}

// routing tells whether a header is one that the proxy routes by and lets nobody write.
func routing(name string) bool {
	return strings.HasPrefix(name, ":") || strings.EqualFold(name, "host")
}

func removable(names []string) []string {
	var out []string
	for _, n := range names {
		if !routing(n) {
			out = append(out, n)
		}
	}
	return out
}

// authorityOf returns the new Host header that operations on the request ask for.
func authorityOf(ops *networking.Headers_HeaderOperations) string {
	for _, values := range []map[string]string{ops.GetSet(), ops.GetAdd()} {
		for _, k := range slices.Sorted(maps.Keys(values)) {
			if strings.EqualFold(k, ":authority") || strings.EqualFold(k, "host") {
				return values[k]
			}
		}
	}
	return ""
}
