package file

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mizzen-mesh/mizzen/pilot/source"
)

const (
	// maxFile bounds what is read of one file, in bytes.
	maxFile = 256 << 20
	// settled is how old a file's time of change must be for equal times to mean equal content.
	settled = 2 * time.Second
)

// scanner looks at a directory again and again, and reports to a sink what has changed. Owned by one goroutine.
type scanner struct {
	opts    Options
	sink    source.Sink
	decoder *Decoder
	watches *watches
	state   *state
	seen    map[string]sighting // by path
	gone    map[string]absence
	polled  time.Time // last scan
	started bool      // a first scan has reported
}

// absence is how long a file has been gone or empty.
type absence struct {
	first time.Time // when it was first missed
	last  time.Time // the latest sign that somebody is at work on it
	grace time.Duration
}

func (a absence) believed() time.Time {
	if at := a.first.Add(vanishMax); at.Before(a.last.Add(a.grace)) {
		return at
	}
	return a.last.Add(a.grace)
}

// stir says that something has happened to a file of this name.
func (s *scanner) stir(name string, now time.Time) {
	for p, a := range s.gone {
		if path.Base(p) == name {
			a.last = now
			s.gone[p] = a
		}
	}
}

// sighting is what was known of a file when it was last read.
type sighting struct {
	info os.FileInfo
	at   time.Time
}

func newScanner(opts Options, sink source.Sink, w *watches) *scanner {
	return &scanner{
		opts: opts, sink: sink, decoder: NewDecoder(opts.DocumentLimit, opts.Check), watches: w, state: newState(),
		seen: map[string]sighting{}, gone: map[string]absence{},
	}
}

// next returns when to look next.
func (s *scanner) next(d *debounce) time.Time {
	wait := pollInterval
	if s.watches.failed {
		wait = pollBlind
	}
	at := s.polled.Add(wait)
	if due, ok := d.due(); ok && due.Before(at) {
		at = due
	}
	for _, a := range s.gone {
		if due := a.believed(); due.Before(at) {
			at = due
		}
	}
	return at
}

// scan looks at all files, reads those that may have changed, and reports.
func (s *scanner) scan(ctx context.Context, now time.Time) {
	s.polled = now
	s.watches.begin()
	t := walk(s.opts.Dir, s.watches)
	s.watches.end()
	clear(s.state.unreadable)
	for path, err := range t.failed {
		s.unreadable(path, err)
	}
	for _, r := range s.read(ctx, t, now) {
		s.take(r, now)
	}
	s.miss(t, now)
	if ctx.Err() != nil {
		return
	}
	events, problems, changed := s.state.commit()
	if len(events) > 0 {
		s.sink.Events(s.opts.Name, events)
	}
	if changed || !s.started {
		s.sink.Problems(s.opts.Name, problems)
	}
	s.started = true
}

// reading is the result of reading one file.
type reading struct {
	path   string
	info   os.FileInfo
	parsed *parsedFile // nil: the same as before
	empty  bool
	err    error
}

// read reads and decodes the files that may have changed, several at a time.
func (s *scanner) read(ctx context.Context, t *tree, now time.Time) []reading {
	var todo []reading
	for _, path := range slices.Sorted(maps.Keys(t.files)) {
		if info := t.files[path]; !s.unchanged(path, info) {
			todo = append(todo, reading{path: path, info: info})
		} else if s.state.vanished[path] {
			todo = append(todo, reading{path: path, info: info})
		}
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range todo {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			s.readOne(&todo[i])
			return nil
		})
	}
	_ = g.Wait() // readings carry their errors
	return todo
}

func (s *scanner) unchanged(path string, info os.FileInfo) bool {
	last, ok := s.seen[path]
	return ok && last.info.Size() == info.Size() && last.info.ModTime().Equal(info.ModTime()) &&
		os.SameFile(last.info, info) && last.at.Sub(info.ModTime()) > settled
}

func (s *scanner) readOne(r *reading) {
	data, err := readFile(filepath.Join(s.opts.Dir, filepath.FromSlash(r.path)))
	if err != nil {
		r.err = err
		return
	}
	old := s.state.files[r.path]
	if r.empty = len(data) == 0; old != nil && old.sum == sha256.Sum256(data) {
		return
	}
	r.parsed = parse(s.decoder, r.path, data, old)
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("the file has more than %d bytes", maxFile)
	}
	return data, err
}

// take brings one reading into the state.
func (s *scanner) take(r reading, now time.Time) {
	if r.err != nil {
		if os.IsNotExist(r.err) {
			return // miss cannot see it; the next scan will
		}
		s.unreadable(r.path, r.err)
		delete(s.seen, r.path)
		return
	}
	s.seen[r.path] = sighting{info: r.info, at: now}
	if r.empty && r.parsed != nil && s.state.files[r.path] != nil && !s.overdue(r.path, now, emptyGrace) {
		s.state.vanish(r.path)
		delete(s.seen, r.path) // to be read again
		return
	}
	delete(s.gone, r.path)
	if r.parsed != nil {
		s.state.put(r.path, r.parsed)
	} else {
		s.state.back(r.path)
	}
}

// overdue notes that a file is gone, and says whether it has been for long enough to be believed.
func (s *scanner) overdue(path string, now time.Time, grace time.Duration) bool {
	a, ok := s.gone[path]
	if !ok {
		s.gone[path] = absence{first: now, last: now, grace: grace}
		return false
	}
	return !now.Before(a.believed())
}

// miss deals with files that were there before and are not now.
func (s *scanner) miss(t *tree, now time.Time) {
	for _, path := range slices.Sorted(maps.Keys(s.state.files)) {
		if _, ok := t.files[path]; ok || t.under(path) {
			continue
		}
		if s.overdue(path, now, vanishGrace) {
			s.state.put(path, nil)
			delete(s.seen, path)
			delete(s.gone, path)
			continue
		}
		s.state.vanish(path)
	}
}

func (s *scanner) unreadable(path string, err error) {
	s.state.unreadable[path] = source.Problem{Code: codeRead, File: path, Message: err.Error()}
}
