// Command bench measures what the control plane costs: it starts `mizzen discovery` on a directory that describes many
// services, connects clients that subscribe as Envoy sidecars do, applies one change at a time, and prints for each phase
// how many clients saw it and when, the bytes sent, and the server's CPU time, allocation and resident memory.
//
//	go run ./tests/bench -services 1000 -clients 300 -runs 3
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

type options struct {
	Namespaces, Services, Pods, Clients, Runs int
	JSON                                      string
	Binary                                    string
	// Rules adds users' objects. PrintRules prints them for a mesh whose namespaces number their services each by itself.
	Rules, PrintRules bool
}

func main() {
	var o options
	flag.IntVar(&o.Namespaces, "namespaces", 20, "namespaces")
	flag.IntVar(&o.Services, "services", 1000, "services in all namespaces together")
	flag.IntVar(&o.Pods, "pods", 2, "pods of a service")
	flag.IntVar(&o.Clients, "clients", 300, "clients")
	flag.IntVar(&o.Runs, "runs", 3, "runs of each change")
	flag.StringVar(&o.JSON, "json", "", "file for the rows as JSON")
	flag.StringVar(&o.Binary, "binary", "", "control plane to measure; empty builds ./cmd/mizzen")
	flag.BoolVar(&o.Rules, "rules", false, "add rules, policies, patches and sidecars")
	flag.BoolVar(&o.PrintRules, "print-rules", false, "print what -rules adds, with services numbered in each namespace, and end")
	flag.Parse()
	if o.PrintRules {
		fmt.Print(rules(func(i int) (name, namespace string) {
			return fmt.Sprintf("svc-%d", i/o.Namespaces), fmt.Sprintf("ns-%d", i%o.Namespaces)
		}))
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	fmt.Printf("machine: %d processors, %s/%s, %s; %d services, %d pods, %d clients\n",
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), o.Services, o.Services*o.Pods, o.Clients)
	b, err := start(ctx, o)
	if err != nil {
		return err
	}
	defer b.stop()
	rows, err := b.phases(ctx)
	if err != nil {
		return err
	}
	if o.JSON == "" {
		return nil
	}
	text, err := json.MarshalIndent(rows, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.JSON, append(text, '\n'), 0o600)
}
