// Package fault does to a control plane what nobody should: bad manifests, bad requests, clients that vanish by the
// thousand or never read. Each time the culprit is told or named, everybody else goes on as before, and in the end
// nothing is left behind.
package fault
