// Package kube is the source that reads a Kubernetes cluster. It keeps one stripped copy of each object, which the model
// shares; there is no cache of its own beside it.
//
// Kinds of custom resources come and go with their definitions, without a restart. Losing the API server loses nothing:
// what was read stays in force until the server answers again, and what has been deleted meanwhile is delivered then.
package kube
