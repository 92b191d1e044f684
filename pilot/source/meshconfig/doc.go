// Package meshconfig reads the mesh-wide configuration, MeshConfig and MeshNetworks: built-in defaults, then each
// source's YAML on top. Sources are files and ConfigMaps; both are followed. What cannot be read or is invalid never
// takes effect: the last good value stays in force, and the mistake is reported.
//
// Parse and Build are the pure part; Watcher follows Inputs.
package meshconfig
