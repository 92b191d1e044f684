// Package parity compares what is generated with recorded answers of another control plane, scenario by scenario, all
// in one process and without an API server. The recordings are not part of the repository: MIZZEN_SHARED (default
// ../shared beside the repository) says where they are, and without them the comparison is skipped.
package parity
