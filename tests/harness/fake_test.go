package harness

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
)

// fakeT is a testing.TB that records how a helper ends its test.
type fakeT struct {
	testing.TB // for what is not recorded; nil

	mu       sync.Mutex // guards the rest
	failure  string
	skipped  string
	cleanups []func()
}

func (f *fakeT) Helper() {}

func (f *fakeT) Cleanup(c func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cleanups = append(f.cleanups, c)
}

func (f *fakeT) Fatal(args ...any) {
	f.failure = fmt.Sprint(args...)
	runtime.Goexit()
}

func (f *fakeT) Fatalf(format string, args ...any) { f.Fatal(fmt.Sprintf(format, args...)) }

func (f *fakeT) Skipf(format string, args ...any) {
	f.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// outcome runs the body as if it were a test.
func outcome(body func(t testing.TB)) *fakeT {
	f := &fakeT{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		body(f)
	}()
	<-done
	return f
}

// errSaid makes test errors.
func errSaid(text string) error { return errors.New(text) }
