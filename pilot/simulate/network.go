package simulate

import (
	"fmt"
	"strings"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	directv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/direct_response/v3"
	echov3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/echo/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/rbac/v3"
	redisv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/redis_proxy/v3"
	tcpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/tcp_proxy/v3"
)

// network goes through the network filters of a chain.
func (w *walker) network(c *listenerv3.FilterChain) {
	for _, f := range c.GetFilters() {
		a := f.GetTypedConfig()
		if f.GetConfigDiscovery() != nil {
			a = w.discovered(f.GetName(), f.GetConfigDiscovery())
		}
		switch m := opened(a).(type) {
		case *rbacv3.RBAC:
			if !w.enforce(StageNetwork, f.GetName(), m.GetRules(), m.GetShadowRules()) {
				return
			}
		case *hcmv3.HttpConnectionManager:
			w.step(StageNetwork, f.GetName(), "reads HTTP")
			w.http(m)
			return
		case *tcpv3.TcpProxy:
			w.tcp(f.GetName(), m)
			return
		case *redisv3.RedisProxy:
			w.forwardTCP([]share{{name: m.GetPrefixRoutes().GetCatchAllRoute().GetCluster(), weight: 1}})
			return
		case *echov3.Echo:
			w.end(Outcome{Kind: Answered, By: f.GetName(), Reason: "echo"})
			return
		case *directv3.Config:
			w.end(Outcome{Kind: Answered, By: f.GetName(), Reason: "direct response"})
			return
		default:
			if reportable(f.GetName()) {
				w.step(StageNetwork, f.GetName(), "taken to let the connection pass", extensionObject(f.GetName())...)
			}
		}
	}
	w.reset("the filter chain has no filter that takes the connection")
}

// share is a cluster with its weight.
type share struct {
	name   string
	weight uint32
}

func (w *walker) tcp(filter string, m *tcpv3.TcpProxy) {
	shares := []share{{name: m.GetCluster(), weight: 1}}
	if m.GetWeightedClusters() != nil {
		shares = nil
		for _, c := range m.GetWeightedClusters().GetClusters() {
			shares = append(shares, share{c.GetName(), c.GetWeight()})
		}
	}
	text := "forwards bytes to " + listing(shares)
	if t := m.GetTunnelingConfig(); t != nil {
		text += " through a tunnel to " + t.GetHostname()
	}
	w.step(StageNetwork, filter, text)
	w.forwardTCP(shares)
}

// forwardTCP ends the walk of a connection.
func (w *walker) forwardTCP(shares []share) {
	o := Outcome{Kind: Forwarded, Destinations: w.destinations(shares)}
	if reason := unreachable(o.Destinations); reason != "" {
		o.Kind, o.Reason = Reset, reason
	}
	w.end(o)
}

// unreachable says why none of the destinations can be reached, or nothing.
func unreachable(list []Destination) string {
	reason := "there is no cluster to send it to"
	for _, d := range list {
		if d.Problem == "" {
			return ""
		}
		reason = d.Cluster + ": " + d.Problem
	}
	return reason
}

// listing names clusters with their shares.
func listing(shares []share) string {
	if len(shares) == 1 {
		return shares[0].name
	}
	var total uint32
	for _, s := range shares {
		total += s.weight
	}
	parts := make([]string, len(shares))
	for i, s := range shares {
		parts[i] = fmt.Sprintf("%s (%.4g %%)", s.name, percent(s.weight, total))
	}
	return strings.Join(parts, ", ")
}

func percent(part, total uint32) float64 {
	if total == 0 {
		return 0
	}
	return 100 * float64(part) / float64(total)
}
