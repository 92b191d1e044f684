// Package cell computes values from rows and remembers what each value read.
//
// It is the one mechanism behind incremental recomputation, push scoping, provenance, NACK attribution and
// "wait until applied". A cell is a pure function of the rows and the environment properties it reads. The graph
// keeps its value with the reads that made it, so that a changed row makes exactly the cells that read it suspect,
// and a property nobody read never splits a value: two environments that agree on the properties a computation
// looked at share its one result.
//
// Inputs: changed row keys (Invalidate), environments and cell ids (Get). Outputs: values, and the watchers whose
// cell may have changed. Invariants: a value returned by Get equals what computing it from scratch would give; a
// recomputation that yields an equal value stops there and does not touch the cells above it.
//
// A Graph belongs to one goroutine.
package cell
