package validate

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// policy is what a traffic policy and its settings for one port have in common.
type policy interface {
	GetLoadBalancer() *networking.LoadBalancerSettings
	GetConnectionPool() *networking.ConnectionPoolSettings
	GetOutlierDetection() *networking.OutlierDetection
	GetTls() *networking.ClientTLSSettings
}

func (c *checker) trafficPolicy(field string, p *networking.TrafficPolicy) {
	if p == nil {
		return
	}
	if !c.settings(field, p) && p.Tunnel == nil && p.ProxyProtocol == nil && p.RetryBudget == nil && len(p.PortLevelSettings) == 0 {
		c.fail(field, "the traffic policy says nothing")
	}
	if p.Tunnel != nil && p.ProxyProtocol != nil {
		c.fail(field+".proxyProtocol", "tunnel and proxyProtocol exclude each other")
	}
	if t := p.Tunnel; t != nil {
		c.tunnel(field+".tunnel", t)
	}
	if b := p.RetryBudget; b != nil {
		c.upToHundred(field+".retryBudget.percent", b.Percent.GetValue())
	}
	for i, port := range p.PortLevelSettings {
		at := index(field+".portLevelSettings", i)
		if port.GetPort() == nil {
			c.fail(at+".port", "missing")
		} else {
			c.failIf(at+".port.number", portNumber(port.GetPort().GetNumber()))
		}
		if !c.settings(at, port) {
			c.fail(at, "the settings of the port say nothing")
		}
	}
}

// settings checks what p has, and says whether it has anything.
func (c *checker) settings(field string, p policy) bool {
	c.loadBalancer(field+".loadBalancer", p.GetLoadBalancer(), p.GetOutlierDetection())
	c.connectionPool(field+".connectionPool", p.GetConnectionPool())
	c.outlierDetection(field+".outlierDetection", p.GetOutlierDetection())
	c.clientTLS(field+".tls", p.GetTls())
	return p.GetLoadBalancer() != nil || p.GetConnectionPool() != nil || p.GetOutlierDetection() != nil || p.GetTls() != nil
}

func (c *checker) tunnel(field string, t *networking.TrafficPolicy_TunnelSettings) {
	if t.Protocol != "" && t.Protocol != "CONNECT" && t.Protocol != "POST" {
		c.fail(field+".protocol", "%q is neither CONNECT nor POST", t.Protocol)
	}
	if !isIP(t.TargetHost) {
		c.failIf(field+".targetHost", domainName(t.TargetHost))
	}
	c.failIf(field+".targetPort", portNumber(t.TargetPort))
}

func (c *checker) notNegative(field string, n int32) {
	if n < 0 {
		c.fail(field, "%d is negative", n)
	}
}

func (c *checker) connectionPool(field string, p *networking.ConnectionPoolSettings) {
	if p == nil {
		return
	}
	if p.Http == nil && p.Tcp == nil {
		c.fail(field, "tcp or http is needed")
	}
	if t := p.Tcp; t != nil {
		c.notNegative(field+".tcp.maxConnections", t.MaxConnections)
		c.failIf(field+".tcp.connectTimeout", duration(t.ConnectTimeout))
		c.failIf(field+".tcp.maxConnectionDuration", duration(t.MaxConnectionDuration))
	}
	h := p.Http
	if h == nil {
		return
	}
	c.notNegative(field+".http.http1MaxPendingRequests", h.Http1MaxPendingRequests)
	c.notNegative(field+".http.http2MaxRequests", h.Http2MaxRequests)
	c.notNegative(field+".http.maxRequestsPerConnection", h.MaxRequestsPerConnection)
	c.notNegative(field+".http.maxRetries", h.MaxRetries)
	c.notNegative(field+".http.maxConcurrentStreams", h.MaxConcurrentStreams)
	c.failIf(field+".http.idleTimeout", duration(h.IdleTimeout))
	if h.UseClientProtocol && h.H2UpgradePolicy == networking.ConnectionPoolSettings_HTTPSettings_UPGRADE {
		c.fail(field+".http.useClientProtocol", "excludes h2UpgradePolicy UPGRADE")
	}
}

func (c *checker) outlierDetection(field string, o *networking.OutlierDetection) {
	if o == nil {
		return
	}
	if o.ConsecutiveErrors != 0 { //nolint:staticcheck // the deprecated field is what the warning is about
		c.warn(field+".consecutiveErrors", "deprecated; use consecutive5xxErrors or consecutiveGatewayErrors")
	}
	c.failIf(field+".interval", duration(o.Interval))
	c.failIf(field+".baseEjectionTime", duration(o.BaseEjectionTime))
	for name, n := range map[string]int32{"maxEjectionPercent": o.MaxEjectionPercent, "minHealthPercent": o.MinHealthPercent} {
		if n < 0 || n > 100 {
			c.fail(field+"."+name, "%d is not a percentage", n)
		}
	}
	if o.ConsecutiveLocalOriginFailures.GetValue() > 0 && !o.SplitExternalLocalOriginErrors {
		c.fail(field+".consecutiveLocalOriginFailures", "needs splitExternalLocalOriginErrors")
	}
}

func (c *checker) clientTLS(field string, t *networking.ClientTLSSettings) {
	if t == nil {
		return
	}
	const longest = 255 // bytes, of the name in a TLS handshake
	if len(t.Sni) > longest {
		c.fail(field+".sni", "has %d bytes, more than %d", len(t.Sni), longest)
	}
	skip := t.InsecureSkipVerify.GetValue()
	if skip && (t.CaCertificates != "" || t.CaCertCredentialName != "") {
		c.fail(field+".insecureSkipVerify", "excludes caCertificates: they would not be used")
	}
	if skip && len(t.SubjectAltNames) > 0 {
		c.fail(field+".insecureSkipVerify", "excludes subjectAltNames: they would not be checked")
	}
	if t.CredentialName != "" && (t.ClientCertificate != "" || t.PrivateKey != "" || t.CaCertificates != "") {
		c.fail(field+".credentialName", "excludes certificates in files")
		return
	}
	if t.Mode != networking.ClientTLSSettings_MUTUAL || t.CredentialName != "" {
		return
	}
	if t.ClientCertificate == "" {
		c.fail(field+".clientCertificate", "needed for MUTUAL without credentialName")
	}
	if t.PrivateKey == "" {
		c.fail(field+".privateKey", "needed for MUTUAL without credentialName")
	}
}

func (c *checker) loadBalancer(field string, l *networking.LoadBalancerSettings, o *networking.OutlierDetection) {
	if l == nil {
		return
	}
	if l.LocalityLbSetting != nil && l.ZoneAwareLbSetting != nil {
		c.fail(field+".zoneAwareLbSetting", "excludes localityLbSetting")
	}
	c.locality(field+".localityLbSetting", l.LocalityLbSetting)
	if s := l.LocalityLbSetting; o == nil && (len(s.GetFailover()) > 0 || len(s.GetFailoverPriority()) > 0) {
		c.warn(field+".localityLbSetting", "failover does nothing without outlierDetection")
	}
	if w := l.Warmup; w != nil {
		c.upToHundred(field+".warmup.minimumPercent", w.MinimumPercent.GetValue())
	}
	if h := l.GetConsistentHash(); h != nil {
		c.consistentHash(field+".consistentHash", h)
	}
}

func (c *checker) upToHundred(field string, percent float64) {
	if percent < 0 || percent > 100 {
		c.fail(field, "%v is not a percentage", percent)
	}
}

func (c *checker) ringSize(field string, size uint64) {
	const largest = 8 << 20 // Envoy's
	if size > largest {
		c.fail(field, "%d is more than %d", size, uint64(largest))
	}
}

func (c *checker) consistentHash(field string, h *networking.LoadBalancerSettings_ConsistentHashLB) {
	if h.MinimumRingSize != 0 { //nolint:staticcheck // the deprecated field is what the warning is about
		c.warn(field+".minimumRingSize", "deprecated; use ringHash")
		c.ringSize(field+".minimumRingSize", h.MinimumRingSize) //nolint:staticcheck // as above
	}
	c.ringSize(field+".ringHash.minimumRingSize", h.GetRingHash().GetMinimumRingSize())
	if cookie := h.GetHttpCookie(); cookie != nil && cookie.Name == "" {
		c.fail(field+".httpCookie.name", "must not be empty")
	}
	if m := h.GetMaglev(); m != nil {
		const limit = 5_000_011
		if size := m.TableSize; size != 0 && (size >= limit || !new(big.Int).SetUint64(size).ProbablyPrime(20)) {
			c.fail(field+".maglev.tableSize", "%d is not a prime below %d", size, limit)
		}
	}
}

func (c *checker) locality(field string, l *networking.LocalityLoadBalancerSetting) {
	if l == nil {
		return
	}
	if len(l.Distribute) > 0 && (len(l.Failover) > 0 || len(l.FailoverPriority) > 0) {
		c.fail(field+".distribute", "excludes failover and failoverPriority")
	}
	var from []string
	for i, d := range l.Distribute {
		at := index(field+".distribute", i)
		from = append(from, d.From)
		var total uint64
		for _, to := range sortedKeys(d.To) {
			if d.To[to] == 0 {
				c.fail(entry(at+".to", to), "the weight must not be 0")
			}
			total += uint64(d.To[to])
		}
		if total != 100 {
			c.fail(at+".to", "the weights make %d, not 100", total)
		}
		c.failIf(at+".to", overlap(sortedKeys(d.To)))
	}
	c.failIf(field+".distribute", overlap(from))
	for i, f := range l.Failover {
		at := index(field+".failover", i)
		switch {
		case f.From == f.To:
			c.fail(at, "from and to are the same region")
		case strings.ContainsAny(f.From+f.To, "/*"):
			c.fail(at, "failover takes regions only, without zones and wildcards")
		}
	}
}

// overlap finds two localities of which one covers the other.
func overlap(localities []string) error {
	for i, l := range localities {
		if strings.Contains(strings.TrimSuffix(l, "*"), "*") || strings.HasSuffix(l, "*") && l != "*" && !strings.HasSuffix(l, "/*") {
			return fmt.Errorf("%q has a wildcard that is not its last part", l)
		}
		for _, other := range localities[i+1:] {
			if covers(l, other) || covers(other, l) {
				return fmt.Errorf("the localities %q and %q overlap", l, other)
			}
		}
	}
	return nil
}

func covers(a, b string) bool {
	a, b = strings.TrimSuffix(strings.TrimSuffix(a, "*"), "/"), strings.TrimSuffix(strings.TrimSuffix(b, "*"), "/")
	return a == "" || a == b || strings.HasPrefix(b, a+"/")
}

// The conditions on which Envoy retries, HTTP's and gRPC's.
func retryConditions() []string {
	return []string{
		"5xx", "gateway-error", "reset", "reset-before-request", "connect-failure", "retriable-4xx", "refused-stream",
		"retriable-status-codes", "retriable-headers", "envoy-ratelimited", "http3-post-connect-failure",
		"cancelled", "deadline-exceeded", "internal", "resource-exhausted", "unavailable",
	}
}

func (c *checker) retries(field string, r *networking.HTTPRetry) {
	if r == nil {
		return
	}
	if r.Attempts < 0 {
		c.fail(field+".attempts", "%d is negative", r.Attempts)
	}
	if r.Attempts == 0 && (r.PerTryTimeout != nil || r.RetryOn != "" || r.RetryRemoteLocalities != nil) {
		c.fail(field+".attempts", "0 switches retries off: nothing else may be set")
	}
	c.failIf(field+".perTryTimeout", duration(r.PerTryTimeout))
	c.failIf(field+".backoff", duration(r.Backoff))
	if r.RetryOn == "" {
		return
	}
	for _, on := range strings.Split(r.RetryOn, ",") {
		if on = strings.TrimSpace(on); !retryCondition(on) {
			c.fail(field+".retryOn", "%q is not a condition for a retry", on)
		}
	}
}

// retryCondition takes Envoy's names and status codes.
func retryCondition(on string) bool {
	for _, known := range retryConditions() {
		if on == known {
			return true
		}
	}
	return len(on) == 3 && on >= "100" && on <= "599" && strings.Trim(on, "0123456789") == ""
}

func wholeSeconds(d time.Duration) bool { return d%time.Second == 0 }
