package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapGrowth is by how many percent the heap may grow until it is collected. Go's default is 100, but most of this
	// heap is configuration that stays.
	heapGrowth = 27
	// quietTick is how long a quiet must last before it is used for a collection.
	quietTick = 250 * time.Millisecond
	// quietBytes is how much may be allocated in a tick that still counts as quiet.
	quietBytes = 256 << 10
)

// tuneCollector lets the heap grow less than Go does by default, and collects ahead of time in the quiet after a large
// change: else the next change, which may be a small one, shares the processors with the collection that the large one
// made due. A GOGC in the environment is obeyed instead.
func tuneCollector(ctx context.Context, lookup func(string) (string, bool)) {
	if _, set := lookup("GOGC"); set {
		return
	}
	debug.SetGCPercent(heapGrowth)
	go func() {
		tick := time.NewTicker(quietTick)
		defer tick.Stop()
		var q quiet
		for {
			select {
			case <-tick.C:
				if q.due(readHeap()) {
					runtime.GC()
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// heapSample is what the runtime says of its heap, in bytes.
type heapSample struct {
	allocated  uint64 // since the process began
	objects    uint64 // in use, or dead and not yet swept
	live, goal uint64 // by the last collection, and when the next one is due
}

func readHeap() heapSample {
	s := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"},
	}
	metrics.Read(s)
	return heapSample{s[0].Value.Uint64(), s[1].Value.Uint64(), s[2].Value.Uint64(), s[3].Value.Uint64()}
}

// quiet decides when a collection ahead of time is worth it.
type quiet struct {
	allocated uint64 // at the last tick
	burst     uint64 // allocated during the ticks since the last quiet one
	large     bool   // there was a large burst lately
	idle      int    // quiet ticks in a row
}

// quietTicks is for how many quiet ticks a large burst is remembered: the work of one may have pauses.
const quietTicks = 4

// due takes the sample of a tick and tells whether to collect now: nothing happened during the tick, what happened
// before it was large, and not all of that is collected. Small changes do not pay for a collection each; theirs comes
// when the heap has grown.
func (q *quiet) due(now heapSample) bool {
	allocated := now.allocated - q.allocated
	room := max(now.goal, now.live) - now.live
	q.allocated = now.allocated
	if allocated >= quietBytes {
		q.burst, q.idle = q.burst+allocated, 0
		q.large = q.large || q.burst > room/4*3
		return false
	}
	q.burst, q.idle = 0, q.idle+1
	due := q.large && now.objects > now.live+room/3
	if due || q.idle >= quietTicks {
		q.large = false
	}
	return due
}
