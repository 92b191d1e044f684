// Package harness starts the real parts that tests and the demonstration run against: a Kubernetes API server, Envoy,
// backends and load. Everything listens on loopback ports that the kernel chose, is ready when its constructor
// returns (found out by probing, never by waiting a fixed time) and dies with the process that started it. It works on Linux.
//
// Each part has two constructors: StartX returns an error and is closed by hand, for programs and TestMain; NewX takes
// a testing.TB, fails the test on error and registers the cleanup. A NewX whose tool is missing skips the test by the
// tool's name, or fails it when MIZZEN_REQUIRE_TOOLS is set, as `make test` does.
package harness
