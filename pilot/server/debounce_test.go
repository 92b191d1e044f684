package server

import (
	"testing"
	"time"
)

func TestDebounce(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	cases := []struct {
		name  string
		fired int // when the last commit was, in ms
		adds  []int
		eds   bool
		due   int
	}{
		{"the first change after quiet goes out at once", -1000, []int{0}, false, 5},
		{"its companions do not delay it", -1000, []int{0, 4}, false, 5},
		{"right after a commit a change waits for a pause", 0, []int{50}, false, 150},
		{"a storm goes on while changes come", 0, []int{50, 140, 230}, false, 330},
		{"but not for ever", 0, []int{10, 9990, 10005}, false, 10010},
		{"endpoints wait less", 0, []int{50}, true, 100},
		{"also in a storm", 0, []int{50, 99, 148, 197, 246, 295}, true, 300},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := NewDebounce(100*time.Millisecond, 10*time.Second)
			d.Fire(at(c.fired))
			if !d.Due().IsZero() {
				t.Fatal("something is due before anything came")
			}
			for _, a := range c.adds {
				d.Add(at(a), c.eds, false)
			}
			if got := d.Due(); !got.Equal(at(c.due)) {
				t.Errorf("due at %v, want %v", got.Sub(start), at(c.due).Sub(start))
			}
		})
	}
}
