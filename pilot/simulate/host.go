package simulate

import (
	"net"
	"strings"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
)

// hostOf returns the virtual host of a domain: the exact one, else that of the longest wildcard at the front, else of the
// longest at the end, else that of all domains.
func hostOf(c *routev3.RouteConfiguration, host string) *routev3.VirtualHost {
	host = strings.ToLower(host)
	if c.GetIgnorePortInHostMatching() {
		host = withoutPort(host)
	}
	var front, back, all *routev3.VirtualHost
	longestFront, longestBack := 0, 0
	for _, v := range c.GetVirtualHosts() {
		for _, d := range v.GetDomains() {
			d = strings.ToLower(d)
			switch {
			case d == host:
				return v
			case d == "*":
				all = v
			case strings.HasPrefix(d, "*"):
				if len(d) > longestFront && len(host) >= len(d) && strings.HasSuffix(host, d[1:]) {
					front, longestFront = v, len(d)
				}
			case strings.HasSuffix(d, "*"):
				if len(d) > longestBack && len(host) >= len(d) && strings.HasPrefix(host, d[:len(d)-1]) {
					back, longestBack = v, len(d)
				}
			}
		}
	}
	switch {
	case front != nil:
		return front
	case back != nil:
		return back
	}
	return all
}

// withoutPort returns a host without its port.
func withoutPort(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		if strings.Contains(h, ":") {
			return "[" + h + "]"
		}
		return h
	}
	return host
}
