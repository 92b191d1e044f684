package main

import "testing"

func TestCollectInTheQuiet(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	sample := func(allocated, objects, live, goal uint64) heapSample {
		return heapSample{allocated, objects * mb, live * mb, goal * mb}
	}
	var q quiet
	for _, s := range []struct {
		name string
		now  heapSample
		want bool
	}{
		{"the start", sample(500*mb, 104, 100, 130), false},
		{"a pause, little is left to collect", sample(500*mb+1000, 104, 100, 130), false},
		{"it goes on", sample(512*mb, 116, 100, 130), false},
		{"the quiet after it", sample(512*mb+1000, 116, 100, 130), true},
		{"still quiet, if not collected", sample(512*mb+2000, 116, 100, 130), false},
		{"a small change", sample(521*mb, 123, 100, 130), false},
		{"the quiet after it", sample(521*mb+1000, 123, 100, 130), false},
		{"a burst in parts", sample(533*mb, 110, 100, 130), false},
		{"that goes on", sample(546*mb, 118, 100, 130), false},
		{"the quiet after that", sample(546*mb+1000, 118, 100, 130), true},
		{"a burst that was collected", sample(560*mb, 101, 100, 130), false},
		{"quiet", sample(560*mb+1000, 101, 100, 130), false},
		{"quiet", sample(560*mb+2000, 101, 100, 130), false},
		{"quiet", sample(560*mb+3000, 101, 100, 130), false},
		{"quiet", sample(560*mb+4000, 101, 100, 130), false},
		{"a small change, long after it", sample(566*mb, 115, 100, 130), false},
		{"the quiet after that", sample(566*mb+1000, 115, 100, 130), false},
		{"a change of a heap without room", sample(567*mb, 8, 6, 6), false},
		{"the quiet after that", sample(567*mb+1, 8, 6, 5), true},
	} {
		if got := q.due(s.now); got != s.want {
			t.Errorf("%s: due is %v", s.name, got)
		}
	}
}
