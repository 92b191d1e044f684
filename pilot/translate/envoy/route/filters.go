package route

import (
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	faultcommonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	corsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/cors/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"
)

// The HTTP filters that routes configure.
const (
	faultFilter   = "envoy.filters.http.fault"
	corsFilter    = "envoy.filters.http.cors"
	sessionFilter = "envoy.filters.http.stateful_session"
)

// routeFilters returns the filter settings of a route, nil if there are none.
func routeFilters(r *networking.HTTPRoute) map[string]*anypb.Any {
	out := map[string]*anypb.Any{}
	if f := fault(r.GetFault()); f != nil {
		out[faultFilter] = pack(f)
	}
	if r.GetCorsPolicy() != nil {
		out[corsFilter] = pack(cors(r.GetCorsPolicy()))
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func fault(in *networking.HTTPFaultInjection) *faultv3.HTTPFault {
	out := &faultv3.HTTPFault{Delay: delay(in.GetDelay()), Abort: abort(in.GetAbort())}
	if out.Delay == nil && out.Abort == nil {
		return nil
	}
	return out
}

// delay supports fixed delays only, as the proxy does.
func delay(in *networking.HTTPFaultInjection_Delay) *faultcommonv3.FaultDelay {
	d := in.GetFixedDelay()
	if d.AsDuration() <= 0 {
		return nil
	}
	out := &faultcommonv3.FaultDelay{
		FaultDelaySecifier: &faultcommonv3.FaultDelay_FixedDelay{FixedDelay: d},
		Percentage:         perHundred(uint32(max(in.GetPercent(), 0))), //nolint:staticcheck // users still write it
	}
	if in.GetPercentage() != nil {
		out.Percentage = perMillion(in.GetPercentage())
	}
	return out
}

func abort(in *networking.HTTPFaultInjection_Abort) *faultv3.FaultAbort {
	out := &faultv3.FaultAbort{}
	switch e := in.GetErrorType().(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		out.ErrorType = &faultv3.FaultAbort_HttpStatus{HttpStatus: uint32(max(e.HttpStatus, 0))}
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		var code codes.Code
		if err := code.UnmarshalJSON([]byte(strconv.Quote(e.GrpcStatus))); err != nil {
			return nil
		}
		out.ErrorType = &faultv3.FaultAbort_GrpcStatus{GrpcStatus: uint32(code)}
	default:
		return nil
	}
	if in.GetPercentage() != nil {
		out.Percentage = perMillion(in.GetPercentage())
	}
	return out
}

func cors(in *networking.CorsPolicy) *corsv3.CorsPolicy {
	out := &corsv3.CorsPolicy{
		FilterEnabled:    &corev3.RuntimeFractionalPercent{DefaultValue: perHundred(100)},
		AllowCredentials: in.GetAllowCredentials(),
		AllowHeaders:     strings.Join(in.GetAllowHeaders(), ","),
		AllowMethods:     strings.Join(in.GetAllowMethods(), ","),
		ExposeHeaders:    strings.Join(in.GetExposeHeaders(), ","),
		ForwardNotMatchingPreflights: wrapperspb.Bool(
			in.GetUnmatchedPreflights() != networking.CorsPolicy_IGNORE),
	}
	for _, o := range in.GetAllowOrigins() {
		if o.GetMatchType() != nil {
			out.AllowOriginStringMatch = append(out.AllowOriginStringMatch, stringMatcher(o))
		}
	}
	if len(in.GetAllowOrigins()) == 0 {
		for _, o := range in.GetAllowOrigin() { //nolint:staticcheck // users still write it
			out.AllowOriginStringMatch = append(out.AllowOriginStringMatch,
				&matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_Exact{Exact: o}})
		}
	}
	if in.GetMaxAge() != nil {
		out.MaxAge = strconv.FormatInt(in.GetMaxAge().GetSeconds(), 10)
	}
	return out
}
