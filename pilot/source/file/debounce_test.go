package file

import (
	"slices"
	"testing"
	"time"
)

func sortStrings(s []string) { slices.Sort(s) }

func TestDebounce(t *testing.T) {
	t.Parallel()
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	var d debounce
	if _, ok := d.due(); ok {
		t.Fatal("due without notice")
	}
	due := func(want int) {
		t.Helper()
		if got, ok := d.due(); !ok || !got.Equal(at(want)) {
			t.Errorf("due at %v, want %v", got.Sub(at(0)), want)
		}
	}
	d.notice(at(0))
	due(8)
	for ms := range 16 {
		d.notice(at(ms))
	}
	due(16)
	d.look(at(16))
	// More changes soon after: a storm.
	d.notice(at(20))
	due(70)
	for ms := 20; ms < 300; ms += 10 {
		d.notice(at(ms))
	}
	due(270)
	d.look(at(270))
	d.notice(at(1000))
	due(1008)
}
