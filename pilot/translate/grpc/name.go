package grpc

import (
	"net"
	"strconv"
	"strings"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/view"
)

// serverPrefix begins the names of servers' listeners; an address follows.
const serverPrefix = "xds.istio.io/grpc/lds/inbound/"

// serverAddress is where a server says that it listens.
type serverAddress struct {
	host string
	port uint32
}

// parseServer reads the name of a server's listener. It reports false for all others.
func parseServer(name string) (serverAddress, bool) {
	text, ok := strings.CutPrefix(name, serverPrefix)
	if !ok {
		return serverAddress{}, false
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return serverAddress{}, false
	}
	n, ok := parsePort(port)
	return serverAddress{host, n}, ok && host != ""
}

// parseClient reads the name of a client's listener, which is what the client dials: "host:port". Port is 0 where none
// is given.
func parseClient(name string) (host string, port uint32, ok bool) {
	host, text, found := strings.Cut(name, ":")
	if !found {
		return host, 0, host != ""
	}
	port, ok = parsePort(text)
	return host, port, ok && host != ""
}

func parsePort(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	return uint32(n), err == nil && n > 0
}

// find returns the service that a client means by a host: one of that name, or by a shorter name one of the client's own
// domain.
func find(c *view.Context, host string) *view.ScopedService {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if s := c.ScopedService(host); s != nil {
		return s
	}
	first, rest, dotted := strings.Cut(host, ".")
	domain := c.DNSDomain()
	if first == "" || domain == "" || dotted && !strings.HasPrefix(domain, rest+".") {
		return nil
	}
	return c.ScopedService(first + "." + domain)
}

// portOf returns a service's port: that of the number, or with 0 the only one there is.
func portOf(s *view.ScopedService, number uint32) *model.Port {
	if number == 0 && len(s.Ports) == 1 {
		return s.Ports[0]
	}
	for _, p := range s.Ports {
		if p.Number == number {
			return p
		}
	}
	return nil
}
