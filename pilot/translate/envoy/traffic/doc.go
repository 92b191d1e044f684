// Package traffic says what clusters are called and which traffic policy is in force for one port of a service and one
// subset of it. Clusters, endpoints, routes and listeners use it, so that they agree.
//
// Inputs: destination rules, the mesh configuration. Outputs: names, Policy and Locality values, all immutable. Facts:
// translation-l4 §1, §2.5 and §2.7.
package traffic
