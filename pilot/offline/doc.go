// Package offline is the control plane without transport: the engine on objects that are read once, and proxies that
// subscribe as an Envoy or a gRPC library does. It answers what a proxy would get, as plain resources or as the bootstrap
// of an Envoy that needs no control plane, and where a workload's request would go (package simulate walks it).
//
// Inputs are a directory, read as mizzen discovery reads it, and a node as a proxy states it. Nothing is fetched: key
// sets that tokens' issuers serve by HTTP are not known here, and whoever needs one is refused.
package offline
