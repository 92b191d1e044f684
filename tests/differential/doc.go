// Package differential runs the whole pipeline on random histories and compares its ways with each other: an engine
// that followed every edit with one that saw the last state only, a proxy fed by increments with one fed by the state of
// the world, and a control plane that reads a directory with one that reads a Kubernetes API server.
package differential
