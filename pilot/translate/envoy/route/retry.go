package route

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	hostv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	priorityv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"
)

const (
	defaultRetryOn       = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"
	retriableStatusCodes = "retriable-status-codes"
	defaultAttempts      = 2
	hostAttempts         = 5
)

// retries returns the policy that a rule, or the mesh, or nobody (nil) asks for. A route that hashes to one host must
// find that host again, so that earlier hosts are not avoided.
func retries(in *networking.HTTPRetry, hashed bool) *routev3.RetryPolicy {
	out := &routev3.RetryPolicy{
		RetryOn: defaultRetryOn, NumRetries: wrapperspb.UInt32(defaultAttempts), HostSelectionRetryMaxAttempts: hostAttempts,
	}
	avoid := !hashed
	if in != nil {
		if in.GetAttempts() <= 0 {
			return nil
		}
		out.NumRetries = wrapperspb.UInt32(uint32(in.GetAttempts()))
		if in.GetRetryOn() != "" {
			out.RetryOn, out.RetriableStatusCodes = retryConditions(in.GetRetryOn())
		}
		out.PerTryTimeout = duration(in.GetPerTryTimeout())
		out.RetryBackOff = backOff(in.GetBackoff())
		if in.GetRetryRemoteLocalities().GetValue() {
			out.RetryPriority = otherPriorities()
		}
		if in.GetRetryIgnorePreviousHosts() != nil {
			avoid = in.GetRetryIgnorePreviousHosts().GetValue()
		}
	}
	if avoid {
		out.RetryHostPredicate = []*routev3.RetryPolicy_RetryHostPredicate{{
			Name: "envoy.retry_host_predicates.previous_hosts",
			ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
				TypedConfig: pack(&hostv3.PreviousHostsPredicate{}),
			},
		}}
	}
	return out
}

func otherPriorities() *routev3.RetryPolicy_RetryPriority {
	return &routev3.RetryPolicy_RetryPriority{
		Name: "envoy.retry_priorities.previous_priorities",
		ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
			TypedConfig: pack(&priorityv3.PreviousPrioritiesConfig{UpdateFrequency: 2}),
		},
	}
}

// retryConditions takes status codes, which users write among the conditions, apart.
func retryConditions(written string) (conditions string, codes []uint32) {
	var names []string
	for s := range strings.SplitSeq(written, ",") {
		s = strings.TrimSpace(s)
		if s == "" {
			continue
		}
		if n, err := strconv.Atoi(s); err == nil && http.StatusText(n) != "" {
			codes = append(codes, uint32(n))
			continue
		}
		names = append(names, s)
	}
	if len(codes) > 0 && !slices.Contains(names, retriableStatusCodes) {
		names = append(names, retriableStatusCodes)
	}
	return strings.Join(names, ","), codes
}

// backOff returns nil where nothing useful is asked for: an interval must be positive.
func backOff(interval *durationpb.Duration) *routev3.RetryPolicy_RetryBackOff {
	if interval.AsDuration() <= 0 {
		return nil
	}
	return &routev3.RetryPolicy_RetryBackOff{BaseInterval: interval}
}
