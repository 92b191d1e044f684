// Package cluster makes the clusters that sidecars and routers send to: one for every visible port of every service in
// the proxy's scope and for every subset of it, those for the proxy's own workload, and the fixed ones.
//
// A service's clusters are one unit, so that a change of a service or of its destination rule recomputes just them.
// They read the service, the rule, the policies that tell whether mutual TLS can be expected, the accounts behind the
// service, and its endpoints only where the cluster holds them. Of the proxy they read its type and profile, and its
// metadata for client certificates; more only where it makes a difference.
//
// Facts: translation-l4 §1, §2; for stock Envoys envoy-facts §5, §8.
package cluster
