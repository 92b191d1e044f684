package route

import (
	"maps"
	"regexp"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/types/known/anypb"
)

// fitGRPC leaves out of h what a gRPC client without a proxy does not know: for some of it the client would refuse all
// routes, and of a condition that it ignores it would not know that it has not looked.
func fitGRPC(h *routev3.VirtualHost) {
	h.TypedPerFilterConfig = nil // the listener has it
	h.Routes = slices.DeleteFunc(h.Routes, func(r *routev3.Route) bool { return len(r.GetMatch().GetDynamicMetadata()) > 0 })
	for _, r := range h.Routes {
		maps.DeleteFunc(r.TypedPerFilterConfig, func(name string, _ *anypb.Any) bool { return name != faultFilter })
		if m, ok := r.GetMatch().GetPathSpecifier().(*routev3.RouteMatch_PathSeparatedPrefix); ok {
			r.Match.PathSpecifier = &routev3.RouteMatch_SafeRegex{SafeRegex: regex(regexp.QuoteMeta(m.PathSeparatedPrefix) + "(/.*)?")}
		}
	}
}
