package file

import (
	"path/filepath"

	"github.com/fsnotify/fsnotify"
)

// watches are the directories of which notice is asked, as the latest walk wants them. Owned by one goroutine.
type watches struct {
	notify *fsnotify.Watcher          // nil: none is to be had
	active map[string]map[string]bool // directory to names of interest; nil means all
	wanted map[string]map[string]bool // what the current walk has asked for
	failed bool                       // some directory could not be watched
}

func newWatches(notify *fsnotify.Watcher) *watches {
	return &watches{notify: notify, active: map[string]map[string]bool{}, failed: notify == nil}
}

func (w *watches) begin() {
	w.wanted = map[string]map[string]bool{}
	w.failed = w.notify == nil
}

func (w *watches) watch(dir string, names ...string) {
	before, ok := w.wanted[dir]
	switch {
	case len(names) == 0:
		w.wanted[dir] = nil
	case !ok:
		w.wanted[dir] = map[string]bool{names[0]: true}
	case before != nil:
		before[names[0]] = true
	}
	if w.notify == nil {
		return
	}
	// Adding again is cheap and needed: the directory may be another one under the same name.
	if err := w.notify.Add(dir); err != nil {
		w.failed = true
	}
}

func (w *watches) end() {
	if w.notify != nil {
		for dir := range w.active {
			if _, ok := w.wanted[dir]; !ok {
				_ = w.notify.Remove(dir) // fails if the directory is gone, and the watch with it
			}
		}
	}
	w.active, w.wanted = w.wanted, nil
}

// relevant says whether a notice for path is of interest.
func (w *watches) relevant(path string) bool {
	names, ok := w.active[filepath.Dir(path)]
	if !ok {
		// The directory itself, or one whose watch is being taken away.
		_, ok = w.active[path]
		return ok
	}
	return names == nil || names[filepath.Base(path)]
}
