// Package proxy plays the ADS part of a proxy without carrying traffic: it subscribes, applies what it is sent,
// acknowledges, and connects again as Envoy and gRPC do, in both variants of the protocol. A Proxy is a state machine
// without I/O, so that a test may run it against a session directly or over a connection, in any order of messages.
package proxy
