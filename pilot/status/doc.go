// Package status writes what the control plane decides into the status of users' objects in a cluster. One control plane
// of a mesh does so at a time, the leader of an Election.
//
// In: the objects that a cluster's source delivers. Out: patches of the status subresource. Invariants: nobody but the
// leader writes, a patch applies only to the status it was computed from, other fields of a status stay untouched.
package status
