// Command testsum reads the events of `go test -json` and prints what a person wants of them: each package's closing
// line, the output of what failed, notes, and each skipped test by name with its reason. It exits 1 if anything failed.
package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	sum, err := read(os.Stdin, out)
	if err == nil {
		sum.print(out)
	}
	if ferr := out.Flush(); err == nil {
		err = ferr
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(2)
	}
	if sum.bad() {
		os.Exit(1)
	}
}
