package server

import (
	"sync"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/jwks"
	"github.com/mizzen-mesh/mizzen/pilot/status"
)

// tap is the sink of the sources of objects: the fetcher of keys and the writer of addresses hear what they deliver, and
// when they have synced.
type tap struct {
	source.Sink
	keys      *jwks.Fetcher
	addresses *status.Addresses // nil without a cluster

	mu      sync.Mutex
	waiting int // sources that have not synced
}

func newTap(sink source.Sink, keys *jwks.Fetcher, addresses *status.Addresses, sources int) *tap {
	if sources == 0 {
		keys.Begin()
	}
	return &tap{Sink: sink, keys: keys, addresses: addresses, waiting: sources}
}

// Events implements source.Sink.
func (t *tap) Events(name string, events []model.Event) {
	t.keys.Observe(events)
	if t.addresses != nil {
		t.addresses.Observe(name, events)
	}
	t.Sink.Events(name, events)
}

// Synced implements source.Sink.
func (t *tap) Synced(name string) {
	t.Sink.Synced(name)
	if t.addresses != nil {
		t.addresses.Synced(name)
	}
	t.mu.Lock()
	t.waiting--
	last := t.waiting == 0
	t.mu.Unlock()
	if last {
		t.keys.Begin()
	}
}
