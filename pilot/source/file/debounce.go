package file

import "time"

const (
	// A change after quiet is acted on at once, but for the rest of what one save does to a file.
	quickGap, quickMax = 8 * time.Millisecond, 16 * time.Millisecond
	// Changes that follow are taken together.
	stormGap, stormMax = 50 * time.Millisecond, 250 * time.Millisecond
)

// debounce decides when to look at files after notices of changes. It reads no clock.
type debounce struct {
	first, last time.Time // notices since the last look; zero if none
	looked      time.Time // last look
}

// notice takes a notice of a change.
func (d *debounce) notice(now time.Time) {
	if d.first.IsZero() {
		d.first = now
	}
	d.last = now
}

// due returns when to look, or false if nothing has happened.
func (d *debounce) due() (time.Time, bool) {
	if d.first.IsZero() {
		return time.Time{}, false
	}
	gap, longest := stormGap, stormMax
	if d.first.Sub(d.looked) > stormMax {
		gap, longest = quickGap, quickMax
	}
	at, latest := d.last.Add(gap), d.first.Add(longest)
	if at.After(latest) {
		return latest, true
	}
	return at, true
}

// look says that the files are looked at now.
func (d *debounce) look(now time.Time) { *d = debounce{looked: now} }
