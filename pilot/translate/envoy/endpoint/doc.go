// Package endpoint makes the load assignments of clusters: those that proxies ask for by the cluster's name, and those
// that stand inside clusters whose endpoints are DNS names.
//
// An assignment reads the service, its endpoints, the destination rule and the policies that tell which endpoints speak
// mutual TLS; of the proxy only what can change the result: its node if callers are kept on it, its place if near
// endpoints are preferred. It is empty, but there, for services that are not known.
package endpoint
