// Package cases holds the acceptance cases and traps of the specifications as small tests: for each number of a list there
// is a case (manifests, a proxy, and what it must get), or a test elsewhere that covers it, or a reason why it is skipped.
// The lists are files in testdata; cases_test.go says what may stand in them.
package cases
