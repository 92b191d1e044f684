package server

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
)

// Loop gathers what sources deliver and commits it: events in, PushContexts out to the engine. It is a source.Sink.
type Loop struct {
	log     *slog.Logger
	builder *model.Builder
	engine  *xds.Engine
	metrics *Metrics
	now     func() time.Time
	wake    chan struct{}
	started chan struct{} // closed when the first PushContext is published
	current atomic.Pointer[model.PushContext]

	mu       sync.Mutex
	pending  []model.Event
	mesh     *model.Mesh
	waiting  map[string]bool // sources that have not synced
	problems map[string][]source.Problem
	debounce Debounce
}

// NewLoop returns a loop that is ready once the named sources have synced and the first PushContext is published.
func NewLoop(log *slog.Logger, b *model.Builder, e *xds.Engine, m *Metrics, d Debounce, sources ...string) *Loop {
	l := &Loop{
		log: log, builder: b, engine: e, metrics: m, now: time.Now, wake: make(chan struct{}, 1), started: make(chan struct{}),
		waiting: map[string]bool{}, problems: map[string][]source.Problem{}, debounce: d,
	}
	for _, s := range sources {
		l.waiting[s] = true
	}
	return l
}

// Events implements source.Sink.
func (l *Loop) Events(_ string, events []model.Event) {
	if len(events) == 0 {
		return
	}
	l.mu.Lock()
	l.pending = append(l.pending, events...)
	l.debounce.Add(l.now(), onlyEndpoints(events), onlyRemovals(events))
	l.mu.Unlock()
	l.metrics.inbound(events)
	l.poke()
}

// Mesh takes a new mesh configuration.
func (l *Loop) Mesh(m *model.Mesh) {
	l.mu.Lock()
	l.mesh = m
	l.debounce.Add(l.now(), false, false)
	l.mu.Unlock()
	l.poke()
}

// Synced implements source.Sink.
func (l *Loop) Synced(name string) {
	l.mu.Lock()
	delete(l.waiting, name)
	l.mu.Unlock()
	l.poke()
}

// Problems implements source.Sink.
func (l *Loop) Problems(name string, problems []source.Problem) {
	l.mu.Lock()
	l.problems[name] = problems
	l.mu.Unlock()
	l.metrics.problems(name, problems)
}

// AllProblems returns what is wrong with the sources' input now, by source.
func (l *Loop) AllProblems() map[string][]source.Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string][]source.Problem, len(l.problems))
	for k, v := range l.problems {
		out[k] = v
	}
	return out
}

// Ready tells whether every source has synced and the first PushContext is published.
func (l *Loop) Ready() bool {
	select {
	case <-l.started:
		return true
	default:
		return false
	}
}

// Started returns a channel that is closed when the loop is ready.
func (l *Loop) Started() <-chan struct{} { return l.started }

// Current returns the PushContext committed last, nil before the first.
func (l *Loop) Current() *model.PushContext { return l.current.Load() }

func (l *Loop) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// onlyEndpoints tells whether events are the everyday life of endpoints.
func onlyEndpoints(events []model.Event) bool {
	for _, e := range events {
		if e.Key.Kind != model.KindEndpointSlice && e.Key.Kind != model.KindPod && e.Key.Kind != model.KindWorkloadEntry {
			return false
		}
	}
	return true
}

func onlyRemovals(events []model.Event) bool {
	for _, e := range events {
		if e.Object != nil {
			return false
		}
	}
	return true
}

// Run commits until ctx ends.
func (l *Loop) Run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		due, ok := l.due()
		if ok {
			if wait := due.Sub(l.now()); wait > 0 {
				timer.Reset(wait)
			} else if !l.commit(ctx) {
				return
			} else {
				continue
			}
		}
		select {
		case <-l.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
	}
}

// due returns when the next commit is. Before every source has synced there is none; then the first is at once.
func (l *Loop) due() (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		return time.Time{}, false
	}
	if l.current.Load() == nil {
		return time.Time{}, true
	}
	d := l.debounce.Due()
	return d, !d.IsZero()
}

// commit makes and publishes one PushContext, and waits until every class holds it: what comes meanwhile is gathered.
func (l *Loop) commit(ctx context.Context) bool {
	l.mu.Lock()
	events, mesh := l.pending, l.mesh
	l.pending, l.mesh = nil, nil
	waited := l.debounce.Fire(l.now())
	l.mu.Unlock()
	l.metrics.debounceTime.Observe(waited.Seconds())
	start := time.Now()
	pc, keys := l.builder.Apply(events, mesh)
	first := l.current.Load() == nil
	l.current.Store(pc)
	if len(keys) == 0 && !first {
		return true
	}
	version := time.Now().Format(time.RFC3339) + "/" + strconv.FormatUint(pc.Generation, 10)
	done := make(chan struct{})
	if err := l.engine.Commit(pc, keys, version, func() { close(done) }); err != nil {
		return false
	}
	select {
	case <-done:
	case <-ctx.Done():
		return false
	}
	l.metrics.committed(len(events), time.Since(start))
	l.log.Debug("committed", "generation", pc.Generation, "events", len(events), "rows", len(keys), "took", time.Since(start))
	if first {
		close(l.started)
	}
	return true
}
