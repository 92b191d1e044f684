// Package fault holds tests that give a whole control plane what it must never be harmed by: bad files, bad requests,
// clients that misbehave. After each the culprit is told what is wrong, and everybody else goes on as before.
package fault
