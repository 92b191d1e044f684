// Package envoy holds tests that drive real, stock Envoys: what they accept, and what happens to requests while
// configuration changes under them.
package envoy
