//go:build !race

package harness

// slowdown is by how much the build makes programs slower.
const slowdown = 1
