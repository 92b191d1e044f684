// Package policy makes the filters that decide about inbound requests and connections: authorization (RBAC) and request
// authentication (JWT).
//
// Inputs: the AuthorizationPolicy and RequestAuthentication objects of the root and the proxy's namespace. Outputs:
// HTTP and network filters. A rule that cannot be expressed is left out of an ALLOW policy and widened in a DENY policy,
// never the other way round. Facts: translation-l7 §8, §9.1.
package policy
