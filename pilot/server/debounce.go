package server

import "time"

// Debounce decides when pending changes are committed. It is a value without a clock: times come in.
//
// The first change after a quiet time goes out at once; in a storm, changes are gathered until it pauses or the oldest
// has waited for the maximum. Endpoint changes wait less than configuration.
type Debounce struct {
	// First is how long the first change after quiet waits for its companions (a pod comes with its slice).
	First time.Duration
	// Removal is the same while nothing but removals is pending: most are the first half of a replacement.
	Removal time.Duration
	// Quiet is the pause that ends a storm, and Max the longest wait in one, for configuration.
	Quiet, Max time.Duration
	// EndpointQuiet and EndpointMax are the same while nothing but endpoints is pending.
	EndpointQuiet, EndpointMax time.Duration

	oldest, newest, fired time.Time
	config, additions     bool
}

// NewDebounce returns the rule with the usual variables' values (PILOT_DEBOUNCE_AFTER, PILOT_DEBOUNCE_MAX).
func NewDebounce(after, maximum time.Duration) Debounce {
	return Debounce{
		First: 5 * time.Millisecond, Removal: 50 * time.Millisecond, Quiet: after, Max: maximum,
		EndpointQuiet: after / 2, EndpointMax: 5 * after / 2,
	}
}

// Add notes that changes arrived; endpoints tells that they concern nothing but endpoints, removals that they only
// remove.
func (d *Debounce) Add(now time.Time, endpoints, removals bool) {
	if d.oldest.IsZero() {
		d.oldest, d.config, d.additions = now, false, false
	}
	d.newest = now
	d.config = d.config || !endpoints
	d.additions = d.additions || !removals
}

// Due returns when the pending changes are to be committed; zero if nothing is pending.
func (d *Debounce) Due() time.Time {
	if d.oldest.IsZero() {
		return time.Time{}
	}
	if d.oldest.Sub(d.fired) >= d.Quiet {
		if !d.additions {
			return d.oldest.Add(d.Removal)
		}
		return d.oldest.Add(d.First)
	}
	quiet, maximum := d.Quiet, d.Max
	if !d.config {
		quiet, maximum = d.EndpointQuiet, d.EndpointMax
	}
	due := d.newest.Add(quiet)
	if last := d.oldest.Add(maximum); last.Before(due) {
		return last
	}
	return due
}

// Fire notes that the pending changes are committed now, and returns how long the oldest waited; 0 if none is pending.
func (d *Debounce) Fire(now time.Time) (waited time.Duration) {
	if !d.oldest.IsZero() {
		waited = now.Sub(d.oldest)
	}
	d.fired, d.oldest = now, time.Time{}
	return waited
}
