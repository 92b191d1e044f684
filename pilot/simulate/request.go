package simulate

import (
	"net/netip"
	"strings"
)

// Protocol is what a client speaks on its connection, inside TLS if there is any.
type Protocol string

// The protocols. The zero value is HTTP1.
const (
	HTTP1 Protocol = ""
	HTTP2 Protocol = "HTTP/2"
	TCP   Protocol = "TCP"
)

// Request is one request, as far as a proxy sees it.
type Request struct {
	// Source and Destination are the ends of the connection before any redirection. Source's port may be 0.
	Source, Destination netip.AddrPort
	// Inbound says that the connection comes to the proxy's workload; otherwise it comes from it.
	Inbound  bool
	Protocol Protocol

	// TLS says that the connection is encrypted as it reaches the proxy; the next three are of its handshake. Peer is the
	// URI in the client's certificate; empty without one.
	TLS        bool
	ServerName string
	ALPN       []string
	Peer       string

	// Method (GET if empty), Host (with its port if the client sends it), Path (with the query) and Headers (by names in
	// lower case) are of HTTP.
	Method, Host, Path string
	Headers            map[string]string
	// Claims are those of a valid token that the request carries, nil without one.
	Claims map[string]any
}

// header returns a header as matchers see it, pseudo-headers included.
func (q *Request) header(name string) (string, bool) {
	switch strings.ToLower(name) {
	case ":authority", "host":
		return q.Host, true
	case ":path":
		return q.Path, true
	case ":method":
		return q.Method, true
	case ":scheme":
		if q.TLS {
			return "https", true
		}
		return "http", true
	}
	v, ok := q.Headers[strings.ToLower(name)]
	return v, ok
}

// bare returns the path without query and fragment.
func (q *Request) bare() string {
	path, _, _ := strings.Cut(q.Path, "#")
	path, _, _ = strings.Cut(path, "?")
	return path
}

// filled returns the request with what is left out filled in.
func (q Request) filled() Request {
	if q.Method == "" {
		q.Method = "GET"
	}
	if q.Path == "" {
		q.Path = "/"
	}
	if q.Host == "" {
		q.Host = q.Destination.Addr().String()
	}
	return q
}
