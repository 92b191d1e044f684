// Package simulate walks generated resources as an Envoy would: it says which listener, filter chain, virtual host, route,
// cluster and endpoints a request meets, who answers or denies it, and which objects decided it. It is pure, and it is
// the oracle of tests about what configuration means rather than how it looks.
//
// Walk follows one request through one proxy. What depends on chance (weights, fractions, load balancing) is listed
// with its shares; what depends on others (external authorization, plugins, Lua) is named and taken to let the request
// pass. Facts: Envoy's documentation of FilterChainMatch, VirtualHost, RouteMatch, RBAC and of load balancing
// (priority levels, panic threshold).
package simulate
