package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a sink that keeps what is in force.
type recorder struct {
	mu       sync.Mutex // guards the rest
	objects  map[model.ObjectKey]*model.Object
	events   int
	problems []source.Problem
	synced   int
}

func newRecorder() *recorder { return &recorder{objects: map[model.ObjectKey]*model.Object{}} }

func (r *recorder) Events(_ string, events []model.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		r.events++
		if e.Object == nil {
			delete(r.objects, e.Key)
		} else {
			r.objects[e.Key] = e.Object
		}
	}
}

func (r *recorder) Synced(string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.synced++
}

func (r *recorder) Problems(_ string, problems []source.Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.problems = problems
}

func (r *recorder) object(key model.ObjectKey) *model.Object {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[key]
}

// names lists the objects in force, but for those that every cluster has.
func (r *recorder) names() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(r.objects), model.ObjectKey.Compare)
	var out []string
	for _, k := range keys {
		if k.Namespace == "shop" || k.Name == "shop" || k.Namespace == "other" || k.Name == "other" || k.Namespace == "istio-system" {
			out = append(out, string(k.Kind)+"/"+k.Namespace+"/"+k.Name)
		}
	}
	return strings.Join(out, " ")
}

// eventually polls until cond holds.
func eventually(t *testing.T, what string, cond func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if err := harness.Poll(ctx, func(context.Context) error { return cond() }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func (r *recorder) wait(t *testing.T, want string) {
	t.Helper()
	eventually(t, "objects", func() error {
		if got := r.names(); got != want {
			return fmt.Errorf("got  %s\nwant %s", got, want)
		}
		return nil
	})
}

func (r *recorder) waitSynced(t *testing.T) {
	t.Helper()
	eventually(t, "sync", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.synced != 1 {
			return errors.New("not synced")
		}
		return nil
	})
}
