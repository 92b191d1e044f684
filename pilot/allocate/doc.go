// Package allocate gives ServiceEntries without addresses one of each family for each of their hosts, so that a proxy
// that answers names can tell TCP services on one port apart.
//
// In: ServiceEntries with the status that they have. Out: the addresses that their status is to hold. With a cluster the
// leader among the control planes decides (Allocator) and pilot/status writes it down; of a directory every control plane
// computes the same by itself (Source, Assign), since nobody can write there.
//
// Invariants: no two hosts have one address, none has what some ServiceEntry claims in its spec, and an address stays
// while its host is eligible.
package allocate
