// Package route generates the route configurations of sidecars: virtual hosts of services and of VirtualServices, the
// catch-all, and the inline configuration of inbound listeners.
//
// Inputs: scopes, services, VirtualServices, DestinationRules (hash policies), the mesh configuration. Outputs:
// RouteConfiguration ("rds/outbound", by name) and, for stock Envoys that take them one by one, VirtualHost ("vhds").
//
// A plan says which service and which rule give which virtual host under which domains; it is made from the whole scope
// but is only names. Each virtual host is a cell of its own that reads its own service, rule and destination rules, so
// that an edit encodes only what it names. Invariants: domains are unique within a route configuration, every virtual
// host is valid by itself (what a user wrote badly is left out, route by route), and a name that is asked for is always
// answered.
package route
