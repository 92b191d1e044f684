package translate

import (
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// UnixPrefix begins an address that is the path of a Unix domain socket.
const UnixPrefix = "unix://"

// maxPath is the longest path of a Unix domain socket, in bytes.
const maxPath = 107

// UsablePath tells whether Envoy takes the path of a Unix domain socket.
func UsablePath(path string) bool {
	return path != "" && len(path) <= maxPath && !strings.Contains(path, "\x00")
}

// Address returns an address as Envoy has it: a Unix domain socket, or a host and port.
func Address(address string, port uint32) *corev3.Address {
	if path, ok := strings.CutPrefix(address, UnixPrefix); ok {
		return &corev3.Address{Address: &corev3.Address_Pipe{Pipe: &corev3.Pipe{Path: path}}}
	}
	return SocketAddress(address, port)
}

// SocketAddress returns a host and port as Envoy has it.
func SocketAddress(host string, port uint32) *corev3.Address {
	return &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
		Address: host, PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: port},
	}}}
}
