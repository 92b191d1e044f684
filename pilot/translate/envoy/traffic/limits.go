package traffic

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

const longest = translate.MaxSeconds * time.Second

// AtLeast returns d as Envoy takes it: nil, for the default, if it is shorter than the least that the field allows, and
// cut to the longest duration there is.
func AtLeast(d *durationpb.Duration, least time.Duration) *durationpb.Duration {
	switch {
	case d == nil || d.CheckValid() != nil && d.GetSeconds() <= 0:
		return nil
	case d.GetSeconds() >= translate.MaxSeconds:
		return durationpb.New(longest)
	case d.AsDuration() < least:
		return nil
	}
	return d
}

// Between returns v within the bounds; what is no number counts as the least.
func Between(v, least, most float64) float64 {
	if math.IsNaN(v) {
		return least
	}
	return min(max(v, least), most)
}

// AtMost returns n cut to most.
func AtMost(n *wrapperspb.UInt32Value, most uint32) *wrapperspb.UInt32Value {
	if n.GetValue() > most {
		return wrapperspb.UInt32(most)
	}
	return n
}

// Share returns a weight of those that make up sum so that all together fit in 32 bits, as Envoy wants them.
func Share(weight uint32, sum uint64) uint32 {
	if sum <= math.MaxUint32 {
		return weight
	}
	return max(uint32(uint64(weight)*(math.MaxUint32/2)/sum), 1) //nolint:gosec // less than weight
}
