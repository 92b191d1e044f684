package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/mizzen-mesh/mizzen/pilot/source"
)

const (
	// pollInterval is how often files are looked at without notice, for file systems that give none.
	pollInterval = 30 * time.Second
	// pollBlind replaces pollInterval when the system refuses to watch a directory.
	pollBlind = 2 * time.Second
	// vanishGrace is how long a file must be gone before its objects are, and emptyGrace how long it must be empty:
	// editors do both on the way, and a busy machine may stop them there. Each counts from the last sign of work on the
	// file, but ends after vanishMax.
	vanishGrace, emptyGrace, vanishMax = 250 * time.Millisecond, time.Second, 3 * time.Second
)

// Options say what a Source reads.
type Options struct {
	// Name of the source; empty means "file".
	Name string
	// Dir is the directory, read with all below it.
	Dir string
	// DocumentLimit is the size in bytes above which a document is refused; 0 means DefaultDocumentLimit.
	DocumentLimit int
	// Check finds what is wrong with an object, such as validate.Object; nil checks nothing. It may be called from
	// several goroutines.
	Check Check
}

// Source reads a directory of manifests and follows its changes.
type Source struct{ opts Options }

var _ source.Source = (*Source)(nil)

// New returns a source. It is an error if the directory does not exist; what is in it is no concern yet.
func New(opts Options) (*Source, error) {
	if opts.Name == "" {
		opts.Name = "file"
	}
	info, err := os.Stat(opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("opening the directory of manifests: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("opening the directory of manifests: %s is not a directory", opts.Dir)
	}
	if opts.Dir, err = filepath.Abs(opts.Dir); err != nil {
		return nil, fmt.Errorf("opening the directory of manifests: %w", err)
	}
	return &Source{opts: opts}, nil
}

// Name returns the source's name.
func (s *Source) Name() string { return s.opts.Name }

// Run delivers the directory's objects, says that it is synced, and then delivers changes until ctx ends.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	notify, err := fsnotify.NewWatcher()
	if err != nil {
		// Out of inotify instances: polling is slow, but works.
		notify = nil
	} else {
		defer notify.Close()
	}
	sc := newScanner(s.opts, sink, newWatches(notify))
	sc.scan(ctx, time.Now())
	if ctx.Err() != nil {
		return nil
	}
	sink.Synced(s.opts.Name)
	s.follow(ctx, sc, notify)
	return nil
}

func (s *Source) follow(ctx context.Context, sc *scanner, notify *fsnotify.Watcher) {
	var d debounce
	var events <-chan fsnotify.Event
	var failures <-chan error
	if notify != nil {
		events, failures = notify.Events, notify.Errors
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Reset(time.Until(sc.next(&d)))
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			sc.noticed(e, &d)
		case err := <-failures:
			if errors.Is(err, fsnotify.ErrEventOverflow) {
				d.notice(time.Now())
			}
		case <-timer.C:
			drain(events, func(e fsnotify.Event) { sc.noticed(e, &d) })
			if now := time.Now(); !now.Before(sc.next(&d)) {
				d.look(now)
				sc.scan(ctx, now)
			}
		}
	}
}

// drain takes the notices that are waiting.
func drain(events <-chan fsnotify.Event, take func(fsnotify.Event)) {
	for {
		select {
		case e := <-events:
			take(e)
		default:
			return
		}
	}
}

func (s *scanner) noticed(e fsnotify.Event, d *debounce) {
	if s.watches.relevant(e.Name) {
		now := time.Now()
		d.notice(now)
		s.stir(filepath.Base(e.Name), now)
	}
}
