package route

import (
	"math"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

const (
	defaultRoute = "default"
)

func pack(m proto.Message) *anypb.Any { return translate.Pack(m) }

func matchAll() *routev3.RouteMatch {
	return &routev3.RouteMatch{PathSpecifier: &routev3.RouteMatch_Prefix{Prefix: "/"}}
}

func regex(text string) *matcherv3.RegexMatcher { return &matcherv3.RegexMatcher{Regex: text} }

// duration returns d as Envoy takes it: absent stays absent, and negative ones, which it refuses, count as zero.
func duration(d *durationpb.Duration) *durationpb.Duration {
	if d == nil {
		return nil
	}
	if d.CheckValid() != nil || d.AsDuration() < 0 {
		return durationpb.New(0)
	}
	return d
}

// perMillion returns p, a percentage with fractions, in millionths.
func perMillion(p *networking.Percent) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{
		Numerator: uint32(math.Min(math.Max(p.GetValue(), 0), 100) * 10000), Denominator: typev3.FractionalPercent_MILLION,
	}
}

// perHundred returns a whole percentage.
func perHundred(n uint32) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{Numerator: n, Denominator: typev3.FractionalPercent_HUNDRED}
}
