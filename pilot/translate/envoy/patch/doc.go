// Package patch changes generated resources as the users' EnvoyFilters say.
//
// It wraps the slots of other generators: a wrapped slot makes what the inner one makes, with the patches that are for
// the proxy applied, and what the patches add. A proxy for which there are no patches gets the inner slot's messages as
// they are and computes nothing more. Proxies to which the same patches apply share results, as the view says which
// those are (view.Context.EnvoyFilterPatches).
//
// A patch that cannot be read, cannot be applied, or makes what Envoy would refuse is left out alone and reported as a
// problem of the unit, under the object's name; the resource and all other patches stay.
//
// Facts: translation-l7 §7.
package patch
