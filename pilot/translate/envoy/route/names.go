package route

import (
	"net/netip"
	"strconv"
	"strings"
)

const (
	httpProxyName = "http_proxy"
	unixPrefix    = "unix://"
)

// configName is a parsed route configuration name.
type configName struct {
	text string
	// port is the listening port; 0 where a listener carries all ports.
	port uint32
	// host is set for listeners of one service that find out the protocol.
	host string
	// known is false for names that no sidecar listener uses.
	known bool
	// grpc is set for the names that gRPC clients without a proxy use: "outbound|<port>||<host>".
	grpc bool
}

// parseName understands "<port>", "<host>:<port>", "http_proxy", "unix://<path>" and "outbound|<port>||<host>".
func parseName(text string) configName {
	n := configName{text: text}
	if text == httpProxyName || strings.HasPrefix(text, unixPrefix) {
		n.known = true
		return n
	}
	digits := text
	if parts := strings.Split(text, "|"); len(parts) == 4 && parts[0] == "outbound" {
		n.grpc, n.host, digits = true, parts[3], parts[1]
	} else if i := strings.LastIndexByte(text, ':'); i >= 0 {
		n.host, digits = strings.Trim(text[:i], "[]"), text[i+1:]
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	n.port, n.known = uint32(port), err == nil && port > 0
	return n
}

// bracketed writes an IPv6 address as it stands in an authority.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		if a, err := netip.ParseAddr(host); err == nil && a.Is6() {
			return "[" + host + "]"
		}
	}
	return host
}

// hostPort returns the name of a virtual host, "host:port".
func hostPort(host string, port uint32) string {
	return bracketed(host) + ":" + strconv.FormatUint(uint64(port), 10)
}

// clusterName returns "outbound|port|subset|host".
func clusterName(host, subset string, port uint32) string {
	return "outbound|" + strconv.FormatUint(uint64(port), 10) + "|" + subset + "|" + host
}
