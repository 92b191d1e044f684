// Package extension makes the filters that users add to proxies as objects: WebAssembly and Lua of WasmPlugin and
// TrafficExtension.
//
// Inputs: the objects of the root and the proxy's namespace. Outputs: filters for the listeners that name a resource, and
// these resources (ECDS). A change of what a filter does so leaves the listener, and its connections, alone; and a plugin
// that Envoy does not take harms its own filter only. Facts: translation-l7 §11, translation-l4 §5.6, §5.7.
package extension
