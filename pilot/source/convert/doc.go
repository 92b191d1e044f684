// Package convert turns the forms in which sources read objects (typed Kubernetes values, JSON trees) into
// model.Objects. All sources go through it, so that a directory of manifests and a cluster that holds them give equal
// objects: it alone decides which fields are kept, which defaults are applied and how Istio messages are decoded.
//
// Inputs are never modified and never kept, except typed values that are handed over with FromTyped.
package convert
