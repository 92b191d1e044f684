package meshconfig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// fileDebounce is what istiod waits after a notice, too.
	fileDebounce = 100 * time.Millisecond
	filePoll     = 10 * time.Second
	// fileLimit bounds what is read of a file, in bytes.
	fileLimit = 16 << 20
)

// Files is an input of two files. Either path may be empty, either file may be missing.
type Files struct {
	Config, Networks string
}

// Exist says whether the file of the mesh configuration is there.
func (f Files) Exist() bool {
	info, err := os.Stat(f.Config)
	return err == nil && info.Mode().IsRegular()
}

// Run implements Input. A file that disappears keeps its last content in force.
func (f Files) Run(ctx context.Context, put func(Texts)) error {
	notify, err := fsnotify.NewWatcher()
	var events <-chan fsnotify.Event
	var failures <-chan error
	if err == nil {
		defer notify.Close()
		events, failures = notify.Events, notify.Errors
		for _, path := range []string{f.Config, f.Networks} {
			if path != "" {
				_ = notify.Add(filepath.Dir(path)) // a directory that is not there yet is found by polling
			}
		}
	}
	last := f.read(Texts{})
	put(last)
	timer := time.NewTimer(filePoll)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-events:
			timer.Reset(fileDebounce)
			continue
		case <-failures:
			timer.Reset(fileDebounce)
			continue
		case <-timer.C:
		}
		timer.Reset(filePoll)
		next := f.read(last)
		if !bytes.Equal(next.Config, last.Config) || !bytes.Equal(next.Networks, last.Networks) ||
			fmt.Sprint(next.Err) != fmt.Sprint(last.Err) {
			put(next)
		}
		last = next
	}
}

func (f Files) read(last Texts) Texts {
	next := Texts{Name: f.Config}
	var err1, err2 error
	next.Config, err1 = readFile(f.Config, last.Config)
	next.Networks, err2 = readFile(f.Networks, last.Networks)
	next.Err = errors.Join(err1, err2)
	return next
}

func readFile(path string, last []byte) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && last == nil {
		return nil, nil
	}
	if err == nil && info.Size() > fileLimit {
		err = fmt.Errorf("%s has more than %d bytes", path, fileLimit)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return last, err
	}
	return data, nil
}
