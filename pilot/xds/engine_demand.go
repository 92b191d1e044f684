package xds

import "time"

// What somebody newly asks for by name is built in slices, so that a client that asks for very much makes nobody's next
// change wait. Sessions wait for the names that the engine has not come to yet.
const (
	// sliceTime is about how long a slice takes.
	sliceTime = 20 * time.Millisecond
	// sliceUnits is how many units of one class are built before it is another's turn.
	sliceUnits = 64
)

// want adds n clients' wish for a name.
func (b *bundle) want(name string, n int32) {
	u := b.asked[name]
	if u == nil {
		if n <= 0 {
			return
		}
		u = &unit{}
		b.asked[name] = u
		if len(b.unbuilt) == 0 {
			b.engine.unbuilt = append(b.engine.unbuilt, b)
		}
		b.unbuilt = append(b.unbuilt, name)
	}
	if u.demand += n; u.demand <= 0 {
		delete(b.asked, name)
		b.dropUnit(name, u)
		b.engine.enqueue(b)
		b.engine.dropped++
	}
}

// buildSome builds some of the units that were asked for since, and reports whether the slot's mask has grown.
func (b *bundle) buildSome() (grown bool) {
	n := min(len(b.unbuilt), sliceUnits)
	for _, name := range b.unbuilt[:n] {
		if u := b.asked[name]; u != nil && u.built == nil { // it may have been given up, and asked for again
			grown = b.refreshUnit(name, u) || grown
		}
	}
	if b.unbuilt = b.unbuilt[n:]; len(b.unbuilt) == 0 {
		b.unbuilt = nil
	}
	return grown
}

// buildAsked builds units that were asked for, one class after the other, until about end, but some at least. It
// returns the classes that changed.
func (e *Engine) buildAsked(end time.Time, moved map[*client]struct{}) (changed []*bundle) {
	for len(e.unbuilt) > 0 {
		b := e.unbuilt[0]
		e.unbuilt = e.unbuilt[1:]
		grown := b.buildSome()
		changed = append(changed, b)
		if len(b.unbuilt) > 0 {
			e.unbuilt = append(e.unbuilt, b)
		}
		if grown {
			e.reclassify(b.slot, moved)
			changed = append(changed, e.refreshQueue(moved)...)
		}
		if time.Now().After(end) {
			break
		}
	}
	return changed
}

// rest returns a channel that can be read from if there is work left from the last slice.
func (e *Engine) rest() <-chan struct{} {
	if len(e.unbuilt) == 0 || e.pc == nil {
		return nil
	}
	return e.ready
}
