// Package model holds what the control plane knows: the objects its sources gave it, the tables derived from them,
// and the PushContext, the immutable snapshot of all tables at one generation.
//
// A Builder owns the writing side: it takes object events, brings the derived tables up to date key by key, and
// returns the next PushContext with the list of keys that changed. A Reader is the only reading side: it records each
// row it looks at, so that whatever was computed from the rows can be found again when they change.
package model
