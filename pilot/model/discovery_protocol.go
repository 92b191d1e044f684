package model

import "strings"

// ParseProtocol returns the protocol that a ServiceEntry, Sidecar or Gateway states: an exact word in any case. An
// empty or unknown word is Unsupported.
func ParseProtocol(word string) Protocol {
	switch strings.ToLower(word) {
	case "http":
		return HTTP
	case "http2":
		return HTTP2
	case "grpc":
		return GRPC
	case "grpc-web":
		return GRPCWeb
	case "http_proxy":
		return HTTPProxy
	case "https":
		return HTTPS
	case "tls":
		return TLS
	case "tcp":
		return TCP
	case "mongo":
		return Mongo
	case "redis":
		return Redis
	case "mysql":
		return MySQL
	case "udp":
		return UDP
	}
	return Unsupported
}

// KubernetesProtocol selects the protocol of a Service port: its transport, then appProtocol if set, else the port name
// up to the first dash, else well-known TCP port numbers.
func KubernetesProtocol(number uint32, name, appProtocol, transport string) Protocol {
	if transport == "UDP" {
		return UDP
	}
	word := name
	if appProtocol != "" {
		word = appProtocol
		switch appProtocol {
		case "kubernetes.io/h2c":
			return HTTP2
		case "kubernetes.io/ws":
			return HTTP
		case "kubernetes.io/wss":
			return HTTPS
		}
	}
	if len(word) >= len(GRPCWeb) && strings.EqualFold(word[:len(GRPCWeb)], string(GRPCWeb)) {
		return GRPCWeb
	}
	word, _, _ = strings.Cut(word, "-")
	if p := ParseProtocol(word); p != Unsupported {
		return p
	}
	switch number {
	case 25, 53, 3306, 27017: // servers that speak first
		return TCP
	}
	return Unsupported
}
