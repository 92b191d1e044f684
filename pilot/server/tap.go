package server

import (
	"sync"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/jwks"
)

// tap is the sink of the sources of objects: the fetcher of keys hears what they deliver, and when they have synced.
type tap struct {
	source.Sink
	keys *jwks.Fetcher

	mu      sync.Mutex
	waiting int // sources that have not synced
}

func newTap(sink source.Sink, keys *jwks.Fetcher, sources int) *tap {
	if sources == 0 {
		keys.Begin()
	}
	return &tap{Sink: sink, keys: keys, waiting: sources}
}

// Events implements source.Sink.
func (t *tap) Events(name string, events []model.Event) {
	t.keys.Observe(events)
	t.Sink.Events(name, events)
}

// Synced implements source.Sink.
func (t *tap) Synced(name string) {
	t.Sink.Synced(name)
	t.mu.Lock()
	t.waiting--
	last := t.waiting == 0
	t.mu.Unlock()
	if last {
		t.keys.Begin()
	}
}
