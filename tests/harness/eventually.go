package harness

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// Poll calls cond until it returns nil, more and more rarely from every millisecond to every 50. When ctx ends first
// it returns the last error of cond.
func Poll(ctx context.Context, cond func(context.Context) error) error {
	const slowest = 50 * time.Millisecond
	var last error
	for pause := time.Millisecond; ; pause = min(2*pause, slowest) {
		err := cond(ctx)
		if err == nil {
			return nil
		}
		// The error of a probe that the deadline cut off says nothing.
		if last == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			last = err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), last)
		}
	}
}

// Within polls cond, which says by an error what is still missing, and tells that if it has not returned nil within the
// deadline. The race detector gets more time, for what it watches is that much slower.
func Within(deadline time.Duration, cond func(context.Context) error) error {
	deadline *= slowdown
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if err := Poll(ctx, cond); err != nil {
		return fmt.Errorf("not within %v: %w", deadline, err)
	}
	return nil
}

// Eventually fails the test if cond has not returned nil within the deadline.
func Eventually(t testing.TB, deadline time.Duration, cond func(context.Context) error) {
	t.Helper()
	if err := Within(deadline, cond); err != nil {
		t.Fatal(err)
	}
}
