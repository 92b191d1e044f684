package route

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

const (
	httpProxyName = "http_proxy"
	// apartSuffix ends the names of configurations whose virtual hosts are sent apart. They are configurations of their
	// own, because one that a client holds cannot change its form in place: from then on until its virtual hosts come it
	// would send everything to the catch-all. A tilde stands in no host; a slash would end the name for Envoy.
	apartSuffix = "~vhds"
)

// configName is a parsed route configuration name.
type configName struct {
	// text is the name of the form that holds its virtual hosts.
	text string
	// apart is set for the form whose virtual hosts are sent apart.
	apart bool
	// port is the listening port; 0 where a listener carries all ports.
	port uint32
	// host is set for listeners of one service that find out the protocol.
	host string
	// known is false for names that no sidecar listener uses.
	known bool
	// grpc is set for the names that gRPC clients without a proxy use: "outbound|<port>||<host>".
	grpc bool
}

// parseName understands "<port>", "<host>:<port>", "http_proxy", "unix://<path>" and "outbound|<port>||<host>". Of the
// first and of "http_proxy" there is a second form with the suffix. Sockets have none, as a path may end like that, and
// configurations of one service need none.
func parseName(text string) configName {
	if base, ok := strings.CutSuffix(text, apartSuffix); ok {
		if n := parseWhole(base); n.divisible() {
			n.apart = true
			return n
		}
	}
	return parseWhole(text)
}

// divisible tells whether there is a form of the configuration whose virtual hosts are sent apart.
func (n configName) divisible() bool {
	return n.known && !n.grpc && n.host == "" && !strings.HasPrefix(n.text, translate.UnixPrefix)
}

func parseWhole(text string) configName {
	n := configName{text: text}
	if text == httpProxyName || strings.HasPrefix(text, translate.UnixPrefix) {
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
