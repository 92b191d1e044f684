// Command demo shows the control plane at work on one machine, without root and without a cluster: it starts
// `mizzen discovery` on a directory of manifests, a caller and two versions of a service with real Envoy sidecars, counts
// how requests are split, edits the VirtualService and counts again.
//
// KEEP=1 leaves everything running until interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("KEEP") == "1"); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, keep bool) error {
	dir, err := os.MkdirTemp("", "mizzen-demo-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	ports, err := world.NewPorts()
	if err != nil {
		return err
	}
	if err := world.Prepare(dir, ports, 2); err != nil {
		return err
	}
	if err := world.Write(dir, "route.yaml", world.Split(90, 10)); err != nil {
		return err
	}
	address, stopPlane, err := startPlane(ctx, dir)
	if err != nil {
		return err
	}
	defer stopPlane()
	fmt.Printf("mizzen discovery serves xDS on %s from %s\n", address, dir)
	mesh, err := world.Start(ctx, world.Options{Dir: dir, Versions: 2, Address: address}, ports)
	if err != nil {
		return err
	}
	defer mesh.Close()
	fmt.Printf("three Envoys are ready: the caller's sidecar listens on %s, reviews v1 and v2 behind theirs\n", mesh.URL())
	if err := show(ctx, mesh, dir); err != nil {
		return err
	}
	if keep {
		fmt.Printf("\nstill running; try: curl -H 'Host: %s' %s\nedit the files in %s; stop with Ctrl-C\n", mesh.Authority(), mesh.URL(), dir)
		<-ctx.Done()
	}
	return nil
}

// startPlane builds and starts the control plane and returns its ADS address.
func startPlane(ctx context.Context, dir string) (string, func(), error) {
	binary, err := harness.BuildBinary(ctx, "")
	if err != nil {
		return "", nil, err
	}
	port, err := harness.ReservePort()
	if err != nil {
		return "", nil, err
	}
	address := port.Address()
	cmd := exec.CommandContext(ctx, binary, "discovery", "--configDir", dir, "--grpcAddr", address,
		"--httpAddr=", "--httpsAddr=", "--secureGRPCAddr=", "--monitoringAddr=", "--log_output_level", "default:warn")
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return "", nil, fmt.Errorf("start mizzen: %w", err)
	}
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		port.Close()
	}
	err = harness.Poll(ctx, func(context.Context) error {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	})
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("mizzen does not listen: %w", err)
	}
	fmt.Printf("mizzen started in %v\n", time.Since(start).Round(time.Millisecond))
	return address, stop, nil
}

// show counts the split, edits it, and counts again.
func show(ctx context.Context, mesh *world.Mesh, dir string) error {
	ready, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	if err := harness.Poll(ready, func(ctx context.Context) error { _, err := mesh.Call(ctx); return err }); err != nil {
		return fmt.Errorf("no request succeeds: %w", err)
	}
	const n = 300
	fmt.Printf("\nVirtualService: v1 90, v2 10\n  %d requests: %s\n", n, text(mesh.Count(ctx, n)))
	before := time.Now()
	if err := world.Write(dir, "route.yaml", world.Split(0, 100)); err != nil {
		return err
	}
	took, err := until(ready, mesh, "v2", before)
	if err != nil {
		return err
	}
	fmt.Printf("\nVirtualService edited: v1 0, v2 100\n  in force after %v (file written to first answer of the new route that stays)\n  %d requests: %s\n",
		took.Round(time.Millisecond), n, text(mesh.Count(ctx, n)))
	if err := world.Write(dir, "route.yaml", world.Split(20, 80)); err != nil {
		return err
	}
	if _, err := until(ready, mesh, "v1", time.Now()); err != nil {
		return err
	}
	fmt.Printf("\nVirtualService edited: v1 20, v2 80\n  %d requests: %s\n", n, text(mesh.Count(ctx, n)))
	return nil
}

// until calls until the version answers ten times of which it must be all (v2) or once (v1), and returns when that began.
func until(ctx context.Context, mesh *world.Mesh, version string, since time.Time) (time.Duration, error) {
	want, run := 1, 0
	if version == "v2" {
		want = 30 // a tenth of the old traffic went there by chance
	}
	var began time.Time
	for ctx.Err() == nil {
		v, err := mesh.Call(ctx)
		if err != nil {
			return 0, err
		}
		if v != version {
			run = 0
			continue
		}
		if run == 0 {
			began = time.Now()
		}
		if run++; run >= want {
			return began.Sub(since), nil
		}
	}
	return 0, fmt.Errorf("the new split did not come into force: %w", ctx.Err())
}

func text(counts map[string]int) string {
	var parts []string
	for v, n := range counts {
		parts = append(parts, v+" "+strconv.Itoa(n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
