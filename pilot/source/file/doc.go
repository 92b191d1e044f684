// Package file is the source that reads a directory of YAML manifests: Kubernetes core kinds, Gateway API kinds and
// Istio kinds alike. A directory gives the same objects as a cluster that holds the manifests.
//
// Decode is the pure part: bytes of one file to objects and problems. Source watches a directory. Mistakes in files are
// source.Problems, one a document; they never stop the source and never harm other documents.
package file
