// Package listener makes the listeners of sidecars: where connections enter, how they are told apart, and which filters
// they pass.
//
// Outbound, one unit is one listener. What it is made of (which services want to be reached there, in which order, after
// conflicts are settled) is decided from the proxy's scope once, and is part of the unit's own name; the listener is then
// built from that name and the rows it mentions. So a listener does not depend on the scope it came from: proxies of
// different namespaces share it, and a change in a scope rebuilds only the listeners whose content changes.
//
// Inputs: the scope, services, virtual services' TCP and TLS routes, destination rules, the proxy's own services, peer
// authentication and authorization. Outputs: Listener messages. Facts: translation-l4 §4-§6.
package listener
