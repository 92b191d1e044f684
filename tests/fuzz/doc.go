// Package fuzz draws objects that no user would think of, one field at a time, and holds what is made of them to what
// Envoy takes.
package fuzz
