package harness

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// keptFailures is how many failures a load report quotes.
const keptFailures = 10

// Call sends one request of a load. It returns a label under which the outcome is counted (a backend's name, a status)
// and an error if the request counts as failed.
type Call func(ctx context.Context) (label string, err error)

// LoadOptions bounds a load.
type LoadOptions struct {
	Rate     int // requests a second
	InFlight int // at most that many at once; 0 means 128
}

// Failure is one failed request.
type Failure struct {
	At    time.Duration // since the load started
	Label string
	Err   error
}

// LoadReport is what a load has seen.
type LoadReport struct {
	Sent     int
	Failed   int
	Counts   map[string]int // successful requests by label
	Failures []Failure      // the first ones
	// Late counts requests whose turn came while InFlight others were still out; they were sent as soon as one ended.
	Late     int
	Duration time.Duration
	P50, P99 time.Duration // latency of the successful requests
	Max      time.Duration
}

func (r LoadReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d sent in %v, %d failed, %d late, p50 %v, p99 %v, max %v;", r.Sent, r.Duration.Round(time.Millisecond),
		r.Failed, r.Late, r.P50, r.P99, r.Max)
	for _, label := range slices.Sorted(maps.Keys(r.Counts)) {
		fmt.Fprintf(&b, " %s=%d", label, r.Counts[label])
	}
	for _, f := range r.Failures {
		fmt.Fprintf(&b, "\n  failed after %v (%s): %v", f.At.Round(time.Millisecond), f.Label, f.Err)
	}
	return b.String()
}

// Load sends requests at a fixed rate, whether or not earlier ones have been answered, until it is stopped.
type Load struct {
	call   Call // fixed at construction, as the next four
	start  time.Time
	cancel context.CancelFunc // stops the pacing
	paced  chan struct{}      // closed when no more requests are begun
	slots  chan struct{}
	wg     sync.WaitGroup

	mu        sync.Mutex // guards the rest
	report    LoadReport
	latencies []time.Duration
}

// StartLoad starts a load; requests in flight are not cut off when it is stopped. The context given to each call is ctx.
func StartLoad(ctx context.Context, opts LoadOptions, call Call) *Load {
	if opts.InFlight == 0 {
		opts.InFlight = 128
	}
	pacing, cancel := context.WithCancel(ctx)
	l := &Load{
		call: call, start: time.Now(), cancel: cancel, paced: make(chan struct{}), slots: make(chan struct{}, opts.InFlight),
		report: LoadReport{Counts: map[string]int{}},
	}
	go l.pace(pacing, ctx, time.Second/time.Duration(max(1, opts.Rate)))
	return l
}

// NewLoad starts a load that ends with the test at the latest.
func NewLoad(t testing.TB, opts LoadOptions, call Call) *Load {
	t.Helper()
	l := StartLoad(context.Background(), opts, call)
	t.Cleanup(func() { l.Stop() })
	return l
}

// pace begins the n-th request n intervals after the start.
func (l *Load) pace(pacing, ctx context.Context, interval time.Duration) {
	defer close(l.paced)
	for n := time.Duration(0); ; n++ {
		if pause(pacing, time.Until(l.start.Add(n*interval))) != nil || pacing.Err() != nil {
			return
		}
		select {
		case l.slots <- struct{}{}:
		default:
			l.late()
			select {
			case l.slots <- struct{}{}:
			case <-pacing.Done():
				return
			}
		}
		l.wg.Go(func() {
			defer func() { <-l.slots }()
			l.one(ctx)
		})
	}
}

// late notes a request that has to wait for its turn.
func (l *Load) late() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Late++
}

// one sends a request and counts its outcome.
func (l *Load) one(ctx context.Context) {
	begun := time.Now()
	label, err := l.call(ctx)
	took := time.Since(begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report.Sent++
	if err == nil {
		l.report.Counts[label]++
		l.latencies = append(l.latencies, took)
		return
	}
	l.report.Failed++
	if len(l.report.Failures) < keptFailures {
		l.report.Failures = append(l.report.Failures, Failure{At: time.Since(l.start), Label: label, Err: err})
	}
}

// Report returns what has been seen so far; requests in flight are not in it.
func (l *Load) Report() LoadReport {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.report
	r.Counts = maps.Clone(r.Counts)
	r.Failures = slices.Clone(r.Failures)
	r.Duration = time.Since(l.start)
	if sorted := slices.Sorted(slices.Values(l.latencies)); len(sorted) > 0 {
		r.P50, r.P99, r.Max = sorted[len(sorted)/2], sorted[len(sorted)*99/100], sorted[len(sorted)-1]
	}
	return r
}

// Stop begins no more requests, waits for those in flight and reports. It may be called again.
func (l *Load) Stop() LoadReport {
	l.cancel()
	<-l.paced
	l.wg.Wait()
	return l.Report()
}

// HTTPCall is the call that GETs a URL with the host as authority and expects status 200 of a backend; it is labelled
// with the backend's name.
func HTTPCall(client *Client, url, host string) Call {
	return func(ctx context.Context) (string, error) {
		reply, err := client.Get(ctx, url, host)
		if err != nil {
			return "no reply", err
		}
		if reply.Status != 200 {
			return fmt.Sprint(reply.Status), fmt.Errorf("status %d: %.200s", reply.Status, reply.Body)
		}
		return reply.Echo.Backend, nil
	}
}
