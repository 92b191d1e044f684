package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// row is one measured phase.
type row struct {
	Phase     string  `json:"phase"`
	Seen      int     `json:"seen"`
	Of        int     `json:"of"`
	P50ms     float64 `json:"p50_ms"`
	P99ms     float64 `json:"p99_ms"`
	Responses int64   `json:"responses"`
	Resources int64   `json:"resources"`
	Bytes     int64   `json:"bytes"`
	CPU       float64 `json:"cpu_s"`
	AllocMB   float64 `json:"alloc_mb"`
	RSS       float64 `json:"rss_mib"`
}

// bench is one control plane under measurement.
type bench struct {
	o               options
	dir             string
	cmd             *exec.Cmd
	xds, monitoring string
	fleet           *fleet
	cancel          context.CancelFunc
}

func start(ctx context.Context, o options) (*bench, error) {
	dir, err := os.MkdirTemp("", "mizzen-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{o: o, dir: dir, fleet: &fleet{}}
	if err := fill(dir, o); err != nil {
		return nil, err
	}
	binary := o.Binary
	if binary == "" {
		var err error
		if binary, err = harness.BuildBinary(ctx, ""); err != nil {
			return nil, err
		}
	}
	for _, p := range []*string{&b.xds, &b.monitoring} {
		port, err := harness.ReservePort()
		if err != nil {
			return nil, err
		}
		*p = port.Address()
	}
	b.cmd = exec.CommandContext(ctx, binary, "discovery", "--configDir", dir, "--grpcAddr", b.xds, "--monitoringAddr", b.monitoring,
		"--httpAddr=", "--httpsAddr=", "--secureGRPCAddr=")
	b.cmd.Stderr = os.Stderr
	b.cmd.Env = append(os.Environ(), "PILOT_MAX_REQUESTS_PER_SECOND=10000")
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	began := time.Now()
	err = harness.Poll(ctx, func(ctx context.Context) error { _, err := b.get(ctx, "/ready"); return err })
	fmt.Printf("ready after %v\n", time.Since(began).Round(time.Millisecond))
	return b, err
}

func (b *bench) get(ctx context.Context, path string) ([]byte, error) {
	return harness.Fetch(ctx, "http://"+b.monitoring+path)
}

func (b *bench) stop() {
	if b.cancel != nil {
		b.cancel()
	}
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	_ = b.cmd.Wait()
	_ = os.RemoveAll(b.dir)
}

type usage struct{ cpu, rss, alloc float64 }

func (b *bench) usage(ctx context.Context) (u usage, err error) {
	pid := strconv.Itoa(b.cmd.Process.Pid)
	stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return u, err
	}
	f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+2:]))
	for _, i := range []int{11, 12} {
		n, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			return u, err
		}
		u.cpu += n / 100 // the kernel's tick for user space
	}
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return u, err
	}
	for l := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			if err != nil {
				return u, err
			}
			u.rss = kb / 1024
		}
	}
	metrics, err := b.get(ctx, "/metrics")
	if err != nil {
		return u, err
	}
	sc := bufio.NewScanner(bytes.NewReader(metrics))
	for sc.Scan() {
		if rest, ok := strings.CutPrefix(sc.Text(), "go_memstats_alloc_bytes_total "); ok {
			if u.alloc, err = strconv.ParseFloat(rest, 64); err != nil {
				return u, err
			}
		}
	}
	return u, sc.Err()
}

// quiet waits until no response came for d, at most limit.
func (b *bench) quiet(ctx context.Context, d, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_ = harness.Poll(ctx, func(context.Context) error {
		if time.Since(time.Unix(0, b.fleet.last.Load())) < d {
			return fmt.Errorf("still receiving")
		}
		return nil
	})
}

// measure applies a change and waits until of clients have seen it, or a minute has passed.
func (b *bench) measure(ctx context.Context, phase string, of int, w *change, apply func() error) (row, error) {
	before, err := b.usage(ctx)
	if err != nil {
		return row{}, err
	}
	f := b.fleet
	bytes0, resp0, res0 := f.bytes.Load(), f.responses.Load(), f.resources.Load()
	w.seen, w.start = map[int]time.Duration{}, time.Now()
	f.change.Store(w)
	f.last.Store(w.start.UnixNano())
	if err := apply(); err != nil {
		return row{}, err
	}
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_ = harness.Poll(wait, func(context.Context) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(w.seen) < of {
			return fmt.Errorf("%d of %d", len(w.seen), of)
		}
		return nil
	})
	b.quiet(ctx, 1500*time.Millisecond, 30*time.Second)
	after, err := b.usage(ctx)
	if err != nil {
		return row{}, err
	}
	r := row{
		Phase: phase, Of: of, Responses: f.responses.Load() - resp0, Resources: f.resources.Load() - res0, Bytes: f.bytes.Load() - bytes0,
		CPU: after.cpu - before.cpu, AllocMB: (after.alloc - before.alloc) / 1e6, RSS: after.rss,
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var times []time.Duration
	for _, d := range w.seen {
		times = append(times, d)
	}
	slices.Sort(times)
	if r.Seen = len(times); r.Seen > 0 {
		r.P50ms = float64(times[r.Seen/2].Microseconds()) / 1000
		r.P99ms = float64(times[r.Seen*99/100].Microseconds()) / 1000
	}
	fmt.Printf("%-16s seen %4d/%-4d p50 %8.1f ms  p99 %8.1f ms  %6d responses %8d resources %10.3f MB  cpu %6.2f s  alloc %8.1f MB  rss %6.0f MiB\n",
		r.Phase, r.Seen, r.Of, r.P50ms, r.P99ms, r.Responses, r.Resources, float64(r.Bytes)/1e6, r.CPU, r.AllocMB, r.RSS)
	return r, nil
}

// connect starts all clients and waits until they hold their first configuration.
func (b *bench) connect(ctx context.Context) (row, error) {
	ctx, b.cancel = context.WithCancel(ctx)
	for id := range b.o.Clients {
		c, err := newClient(b.fleet, b.o, id)
		if err != nil {
			return row{}, err
		}
		b.fleet.clients = append(b.fleet.clients, c)
	}
	w := &change{}
	return b.measure(ctx, "connect-all", b.o.Clients, w, func() error {
		for _, c := range b.fleet.clients {
			go func() {
				if err := c.run(ctx, b.xds); err != nil {
					fmt.Fprintln(os.Stderr, "bench: client", c.id, err)
				}
			}()
			go func() {
				<-c.synced
				w.mu.Lock()
				defer w.mu.Unlock()
				w.seen[c.id] = time.Since(w.start)
			}()
		}
		return nil
	})
}

func (b *bench) write(name, content string) func() error {
	return func() error { return world.Write(b.dir, name, content) }
}

// phases runs all phases and returns their rows.
func (b *bench) phases(ctx context.Context) ([]row, error) {
	var rows []row
	first, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	rows = append(rows, first)
	steps := []func(run int) (row, error){
		func(i int) (row, error) {
			w := &change{typeURL: translate.EndpointType, text: []byte("svc-7." + namespaceOf(b.o, 7))}
			return b.measure(ctx, "endpoint-change", b.o.Clients, w, b.write("slice-7.yaml", sliceYAML(b.o, 7, i%2 == 1)))
		},
		func(i int) (row, error) {
			mark := fmt.Sprintf("bench-vs-%d", i)
			w := &change{typeURL: translate.RouteType, text: []byte(mark)}
			return b.measure(ctx, "virtualservice", b.o.Clients, w, b.write("vs.yaml", virtualService(b.o, mark, "*")))
		},
		func(i int) (row, error) {
			subset := fmt.Sprintf("bench%d", i)
			w := &change{typeURL: translate.ClusterType, text: []byte("|" + subset + "|")}
			return b.measure(ctx, "destinationrule", b.o.Clients, w, b.write("dr.yaml", destinationRule(b.o, subset)))
		},
		func(i int) (row, error) {
			o := b.o
			n := o.Services + i
			w := &change{typeURL: translate.ClusterType, text: fmt.Appendf(nil, "svc-%d.", n)}
			return b.measure(ctx, "new-service", o.Clients, w, b.write(fmt.Sprintf("svc-%d.yaml", n), serviceYAML(o, n)))
		},
		func(i int) (row, error) {
			o := b.o
			n := o.Services + i
			w := &change{typeURL: translate.ClusterType, removed: fmt.Sprintf("outbound|80||svc-%d.%s.svc.cluster.local", n, namespaceOf(o, n))}
			return b.measure(ctx, "delete-service", o.Clients, w, func() error { return remove(b.dir, fmt.Sprintf("svc-%d.yaml", n)) })
		},
		func(i int) (row, error) {
			mark := fmt.Sprintf("bench-scoped-%d", i)
			w := &change{typeURL: translate.RouteType, text: []byte(mark)}
			return b.measure(ctx, "ns-scoped-vs", (b.o.Clients+b.o.Namespaces-1)/b.o.Namespaces, w, b.write("scoped.yaml", virtualService(b.o, mark, ".")))
		},
	}
	for _, step := range steps {
		for i := range b.o.Runs {
			r, err := step(i)
			if err != nil {
				return rows, err
			}
			rows = append(rows, r)
		}
	}
	churn, err := b.churn(ctx)
	return append(rows, churn), err
}

// churn changes 20 slices a second for 15 seconds.
func (b *bench) churn(ctx context.Context) (row, error) {
	w := &change{}
	return b.measure(ctx, "churn-20/s-15s", 0, w, func() error {
		tick := time.NewTicker(time.Second / 20)
		defer tick.Stop()
		for i := range 300 {
			s := 10 + i%40
			if err := world.Write(b.dir, fmt.Sprintf("slice-%d.yaml", s), sliceYAML(b.o, s, i/40%2 == 1)); err != nil {
				return err
			}
			<-tick.C
		}
		return nil
	})
}

func virtualService(o options, mark, exportTo string) string {
	s := 3
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: bench-%[5]d, namespace: %[1]s}
spec:
  hosts: [svc-%[2]d.%[1]s.svc.cluster.local]
  exportTo: [%[4]q]
  http:
  - name: %[3]s
    route: [{destination: {host: svc-%[2]d.%[1]s.svc.cluster.local, port: {number: 80}}}]
`, namespaceOf(o, s), s, mark, exportTo, len(exportTo)+int(exportTo[0]))
}

func destinationRule(o options, subset string) string {
	s := 5
	return fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: bench, namespace: %[1]s}
spec:
  host: svc-%[2]d.%[1]s.svc.cluster.local
  subsets: [{name: %[3]s, labels: {version: v1}}]
`, namespaceOf(o, s), s, subset)
}
