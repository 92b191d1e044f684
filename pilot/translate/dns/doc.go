// Package dns generates the table of names that a proxy's agent answers itself.
//
// Inputs: the services of a proxy's scope, and for headless services their endpoints. Output: one NameTable ("nds"),
// whose resource has no name. The names of each service are a cell of their own, and so is the list of services, so
// that a change that is not about names stops there.
package dns
