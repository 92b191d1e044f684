package jwks

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mizzen-mesh/mizzen/pilot/keyset"
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
)

const (
	// Name is what the fetcher is called among the sources.
	Name = "jwks"
	// Refresh is how often keys are fetched anew unless the options say otherwise.
	Refresh = 20 * time.Minute
	// fetchTimeout bounds one fetch, from the first name looked up to the last byte.
	fetchTimeout = 5 * time.Second
	// firstRound bounds the wait for keys before proxies are served.
	firstRound = 6 * time.Second
	// parallel is how many fetches are under way at a time.
	parallel = 8
)

// Options are what a fetcher is made with.
type Options struct {
	Log *slog.Logger
	// Refresh is how often keys are fetched anew; Refresh the constant if 0.
	Refresh time.Duration
	// Timeout bounds one fetch; 5 s if 0.
	Timeout time.Duration
	// Block are addresses that may never be connected to, Allow are exceptions from those blocked by default.
	Block, Allow []netip.Prefix
	// Roots are authorities to be trusted besides the system's, PEM.
	Roots []byte
	// Remote is set if proxies fetch by themselves what objects name by URI.
	Remote bool
	// Metrics, if set, gets the counts of fetches.
	Metrics prometheus.Registerer
}

// Fetcher is a source of key sets.
type Fetcher struct {
	log    *slog.Logger
	client *client
	wake   chan struct{}
	state  *schedule // Run's alone

	good, bad prometheus.Counter

	mu       sync.Mutex
	observed []model.Event
	begun    time.Time // when the others had synced
}

// New returns a fetcher. It fails for authorities that cannot be read.
func New(o Options) (*Fetcher, error) {
	c, err := newClient(filter{o.Allow, o.Block}, o.Roots, cmp.Or(o.Timeout, fetchTimeout))
	if err != nil {
		return nil, err
	}
	f := &Fetcher{
		log: o.Log, client: c, wake: make(chan struct{}, 1),
		state: newSchedule(cmp.Or(o.Refresh, Refresh), spread),
		good:  prometheus.NewCounter(prometheus.CounterOpts{Name: "pilot_jwks_resolver_network_fetch_success_total", Help: "Key sets fetched."}),
		bad:   prometheus.NewCounter(prometheus.CounterOpts{Name: "pilot_jwks_resolver_network_fetch_fail_total", Help: "Key sets that could not be fetched."}),
	}
	f.state.remote = o.Remote
	if f.log == nil {
		f.log = slog.New(slog.DiscardHandler)
	}
	for _, m := range []prometheus.Collector{f.good, f.bad} {
		if o.Metrics == nil {
			break
		}
		if err := o.Metrics.Register(m); err != nil {
			return nil, fmt.Errorf("register the metrics of fetching keys: %w", err)
		}
	}
	return f, nil
}

// spread varies a wait by a tenth, so that what began together does not go on together.
func spread(d time.Duration) time.Duration {
	return d - d/10 + rand.N(d/5+1) //nolint:gosec // not a secret
}

// Name implements source.Source.
func (f *Fetcher) Name() string { return Name }

// Observe takes what other sources deliver, of whatever kind. It may be called from any goroutine.
func (f *Fetcher) Observe(events []model.Event) {
	f.mu.Lock()
	before := len(f.observed)
	for _, e := range events {
		if e.Key.Kind == model.KindRequestAuthentication {
			f.observed = append(f.observed, e)
		}
	}
	more := len(f.observed) > before
	f.mu.Unlock()
	if more {
		f.poke()
	}
}

// Begin says that the other sources have delivered what they had at their start. The fetcher has synced when all that
// was named till then has been tried once, or after a few seconds: a restart must not take their keys from proxies.
func (f *Fetcher) Begin() {
	f.mu.Lock()
	f.begun = time.Now()
	f.mu.Unlock()
	f.poke()
}

func (f *Fetcher) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Fetcher) take() (events []model.Event, begun time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events, f.observed = f.observed, nil
	return events, f.begun
}

// outcome is what became of one fetch.
type outcome struct {
	target *target
	set    *keyset.Set
	err    error
}

// Run implements source.Source.
func (f *Fetcher) Run(ctx context.Context, sink source.Sink) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	outcomes := make(chan outcome)
	timer := time.NewTimer(0)
	defer timer.Stop()
	busy, synced := 0, false
	for {
		events, begun := f.take()
		now := time.Now()
		gone := f.state.observe(events, now)
		sink.Events(Name, gone)
		if len(events) > 0 {
			sink.Problems(Name, f.state.problems())
		}
		for _, t := range f.state.start(parallel-busy, now) {
			busy++
			running.Go(func() {
				set, err := f.client.fetch(ctx, t.Request)
				select {
				case outcomes <- outcome{t, set, err}:
				case <-ctx.Done():
				}
			})
		}
		limit := begun.Add(firstRound)
		if !synced && !begun.IsZero() && (f.state.settled() || now.After(limit)) {
			synced = true
			sink.Synced(Name)
		}
		timer.Reset(f.wait(now, limit, busy, !synced && !begun.IsZero()))
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		case <-timer.C:
		case o := <-outcomes:
			busy--
			f.finish(o, sink)
		}
	}
}

// wait returns how long there is nothing to do unless something happens.
func (f *Fetcher) wait(now, limit time.Time, busy int, syncing bool) time.Duration {
	d := time.Hour
	if next := f.state.next(); busy < parallel && !next.IsZero() {
		d = min(d, next.Sub(now))
	}
	if syncing {
		d = min(d, limit.Sub(now)+time.Millisecond)
	}
	return max(d, 0)
}

func (f *Fetcher) finish(o outcome, sink source.Sink) {
	was := o.target.err
	sink.Events(Name, f.state.done(o.target, o.set, o.err, time.Now()))
	if o.err == nil {
		f.good.Inc()
	} else {
		f.bad.Inc()
		f.log.Warn("keys for tokens cannot be had", "error", o.err, "failures", o.target.failures)
	}
	if o.err != nil || was != nil {
		sink.Problems(Name, f.state.problems())
	}
}
