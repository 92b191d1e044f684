package cluster

import (
	"math"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/mizzen-mesh/mizzen/pilot/translate/envoy/traffic"
)

// pool applies connection pool settings and what else becomes limits (translation-l4 §2.4).
func (j *job) pool(cl *clusterv3.Cluster, o *httpOptions, p *traffic.Policy) {
	cl.CircuitBreakers = j.breakers
	cl.UpstreamConnectionOptions = keepalive(j.mesh.Config.GetTcpKeepalive(), p.Pool.GetTcp().GetTcpKeepalive())
	if p.Pool == nil && p.RetryBudget == nil {
		return
	}
	t := unlimited()
	cl.CircuitBreakers = &clusterv3.CircuitBreakers{Thresholds: []*clusterv3.CircuitBreakers_Thresholds{t}}
	tcp, http := p.Pool.GetTcp(), p.Pool.GetHttp()
	limit(&t.MaxConnections, tcp.GetMaxConnections())
	limit(&t.MaxPendingRequests, http.GetHttp1MaxPendingRequests())
	limit(&t.MaxRequests, http.GetHttp2MaxRequests())
	limit(&t.MaxRetries, http.GetMaxRetries())
	t.RetryBudget = retryBudget(p.RetryBudget)
	if d := traffic.AtLeast(tcp.GetConnectTimeout(), time.Nanosecond); d != nil {
		cl.ConnectTimeout = d
	}
	idle := traffic.AtLeast(http.GetIdleTimeout(), 0)
	if idle == nil {
		idle = traffic.AtLeast(tcp.GetIdleTimeout(), 0)
	}
	most := traffic.AtLeast(tcp.GetMaxConnectionDuration(), time.Millisecond)
	if n := http.GetMaxRequestsPerConnection(); idle != nil || n > 0 || most != nil {
		o.common = &corev3.HttpProtocolOptions{IdleTimeout: idle, MaxConnectionDuration: most}
		if n > 0 {
			o.common.MaxRequestsPerConnection = uint32Value(n)
		}
	}
	if o.kind == explicitH2 {
		o.streams, o.keepalive = http.GetMaxConcurrentStreams(), http.GetHttp2KeepAlive()
	}
}

func unlimited() *clusterv3.CircuitBreakers_Thresholds {
	return &clusterv3.CircuitBreakers_Thresholds{
		MaxConnections: wrapperspb.UInt32(math.MaxUint32), MaxPendingRequests: wrapperspb.UInt32(math.MaxUint32),
		MaxRequests: wrapperspb.UInt32(math.MaxUint32), MaxRetries: wrapperspb.UInt32(math.MaxUint32),
	}
}

// limit sets a threshold that the user gave; 0 means none.
func limit(t **wrapperspb.UInt32Value, n int32) {
	if n > 0 {
		*t = uint32Value(n)
	}
}

// retryBudget fills in what the user left to the defaults of the field.
func retryBudget(b *networking.TrafficPolicy_RetryBudget) *clusterv3.CircuitBreakers_Thresholds_RetryBudget {
	if b == nil {
		return nil
	}
	out := &clusterv3.CircuitBreakers_Thresholds_RetryBudget{
		BudgetPercent: percent(20), MinRetryConcurrency: uint32Value(uint32(3)), BudgetInterval: traffic.AtLeast(b.GetBudgetInterval(), time.Millisecond),
	}
	if b.GetPercent() != nil {
		out.BudgetPercent = percent(b.GetPercent().GetValue())
	}
	if n := b.GetMinRetryConcurrency(); n > 0 {
		out.MinRetryConcurrency = uint32Value(n)
	}
	return out
}

// percent returns a percentage within its bounds: one that is no number makes Envoy abort.
func percent(v float64) *typev3.Percent { return &typev3.Percent{Value: traffic.Between(v, 0, 100)} }

// keepalive merges the mesh's and the rule's settings field by field. One that is there but empty enables the
// operating system's defaults.
func keepalive(mesh, own *networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive) *clusterv3.UpstreamConnectionOptions {
	if mesh == nil && own == nil {
		return nil
	}
	k := &corev3.TcpKeepalive{}
	for _, s := range []*networking.ConnectionPoolSettings_TCPSettings_TcpKeepalive{mesh, own} {
		if n := s.GetProbes(); n > 0 {
			k.KeepaliveProbes = uint32Value(n)
		}
		if d := s.GetTime(); d != nil {
			k.KeepaliveTime = uint32Value(uint32(max(d.GetSeconds(), 0))) //nolint:gosec // seconds of a keepalive
		}
		if d := s.GetInterval(); d != nil {
			k.KeepaliveInterval = uint32Value(uint32(max(d.GetSeconds(), 0))) //nolint:gosec // seconds of a keepalive
		}
	}
	return &clusterv3.UpstreamConnectionOptions{TcpKeepalive: k}
}

// outlier translates outlier detection (translation-l4 §2.6). What the user leaves out has Envoy's defaults.
func outlier(d *networking.OutlierDetection) *clusterv3.OutlierDetection {
	if d == nil {
		return nil
	}
	out := &clusterv3.OutlierDetection{
		EnforcingSuccessRate: wrapperspb.UInt32(0), Interval: traffic.AtLeast(d.GetInterval(), time.Millisecond),
		BaseEjectionTime: traffic.AtLeast(d.GetBaseEjectionTime(), time.Millisecond),
	}
	enforce := func(v *wrapperspb.UInt32Value) *wrapperspb.UInt32Value {
		if v.GetValue() == 0 {
			return wrapperspb.UInt32(0)
		}
		return wrapperspb.UInt32(100)
	}
	if v := d.GetConsecutive_5XxErrors(); v != nil {
		out.Consecutive_5Xx, out.EnforcingConsecutive_5Xx = v, enforce(v)
	}
	if v := d.GetConsecutiveGatewayErrors(); v != nil {
		out.ConsecutiveGatewayFailure, out.EnforcingConsecutiveGatewayFailure = v, enforce(v)
	}
	if v := traffic.AtMost(d.GetFailurePercentageThreshold(), 100); v != nil {
		out.FailurePercentageThreshold, out.EnforcingFailurePercentage = v, enforce(v)
	}
	if n := d.GetMaxEjectionPercent(); n > 0 {
		out.MaxEjectionPercent = uint32Value(min(n, 100))
	}
	if d.GetSplitExternalLocalOriginErrors() {
		out.SplitExternalLocalOriginErrors = true
		out.EnforcingLocalOriginSuccessRate = wrapperspb.UInt32(0)
		if v := d.GetConsecutiveLocalOriginFailures(); v.GetValue() > 0 {
			out.ConsecutiveLocalOriginFailure = v
			out.EnforcingConsecutiveLocalOriginFailure = wrapperspb.UInt32(100)
		}
	}
	return out
}
