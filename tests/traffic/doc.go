// Package traffic drives requests through real, stock Envoys that follow one directory of manifests, and tells what must
// come of them: status, backend, headers, counts. Each scenario has a host, backends and objects of its own; all share
// one mesh.
package traffic
