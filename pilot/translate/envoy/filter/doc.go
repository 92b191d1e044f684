// Package filter makes the network and HTTP filters that listeners have in common: the HTTP connection manager with its
// filter chain, TCP chains, statistics, access logs, tracing.
//
// Inputs: the mesh configuration, Telemetry objects, the proxy's PROXY_CONFIG and settings, and what the listener says
// about one chain. Outputs: Envoy filters. A Set belongs to one computation. Facts: translation-l4 §5.5-§5.8,
// translation-l7 §10. For stock Envoys (Context.Stock) Istio's own filters are left out and no deprecated field is used.
package filter
