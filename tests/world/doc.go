// Package world sets up a small mesh on one machine without root and without a cluster: a caller and versions of a
// service, each with a stock Envoy for its sidecar on loopback addresses, configured by a control plane that reads a
// directory of manifests. The demo and the tests with real Envoys use it.
package world
