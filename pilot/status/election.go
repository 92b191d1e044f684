package status

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

const (
	// leaderAnnotation is where a lock keeps its record.
	leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"
	// The times of elections, as istiod has them.
	leaseDuration = 30 * time.Second
	renewDeadline = 15 * time.Second
	retryPeriod   = 7500 * time.Millisecond
	// releaseTimeout bounds giving a lock up at the end.
	releaseTimeout = 2 * time.Second
)

// Election is a lock that control planes contend for: a ConfigMap with the record of its holder in an annotation, in the
// form that istiod of today and of old has it, so that the two never both lead. (The elections of client-go know Leases
// only, and link every client there is.)
type Election struct {
	Client dynamic.Interface
	// Namespace is the control plane's, Name the lock's.
	Namespace, Name string
	// Identity is unique among the contenders; a process that comes back under the identity of the holder leads at once.
	Identity string
	// Key is the revision of the control plane; empty means "default".
	Key string
	Log *slog.Logger
	// Lease is how long a holder that is not heard of is believed to live, 30 s if 0 and whole seconds; Renew how long a
	// holder leads without being able to renew, 15 s if 0; Retry the time between attempts, 7.5 s if 0.
	Lease, Renew, Retry time.Duration
}

// record is what a lock says of its holder. Names are those of client-go's record, and istiod's addition.
type record struct {
	Holder      string      `json:"holderIdentity"`
	Key         string      `json:"holderKey,omitempty"`
	Lease       int         `json:"leaseDurationSeconds"`
	Acquired    metav1.Time `json:"acquireTime"`
	Renewed     metav1.Time `json:"renewTime"`
	Transitions int         `json:"leaderTransitions"`
}

// candidate is what one contender knows. It has no I/O; clocks of different machines are never compared.
type candidate struct {
	identity, key string
	lease         time.Duration
	text          string    // of the record seen last
	seen          time.Time // when that was first seen
}

// claim returns the record to write to hold the lock, and false as long as somebody else holds it.
func (c *candidate) claim(text string, now time.Time) (record, bool) {
	if text != c.text || c.seen.IsZero() {
		c.text, c.seen = text, now
	}
	var old record
	if err := json.Unmarshal([]byte(text), &old); err != nil {
		old = record{} // none, or nobody's
	}
	held := old.Holder != "" && old.Holder != c.identity
	if held && now.Before(c.seen.Add(time.Duration(old.Lease)*time.Second)) {
		return old, false
	}
	r := record{
		Holder: c.identity, Key: cmp.Or(c.key, "default"), Lease: int(c.lease / time.Second),
		Acquired: metav1.NewTime(now), Renewed: metav1.NewTime(now), Transitions: old.Transitions,
	}
	if old.Holder == c.identity {
		r.Acquired = old.Acquired
	} else if old.Holder != "" {
		r.Transitions++
	}
	return r, true
}

// errHeld says that somebody else holds the lock.
var errHeld = errors.New("held by another")

// Run contends until ctx ends. While it holds the lock lead runs, whose context ends when the lock is lost; lead returns
// soon after that, and not before.
func (e *Election) Run(ctx context.Context, lead func(context.Context)) {
	c := &candidate{identity: e.Identity, key: e.Key, lease: cmp.Or(e.Lease, leaseDuration)}
	for ctx.Err() == nil {
		err := e.try(ctx, c, cmp.Or(e.Renew, renewDeadline))
		switch {
		case err == nil:
			e.Log.Info("leading", "lock", e.Name, "identity", e.Identity)
			e.term(ctx, c, lead)
			e.Log.Info("no longer leading", "lock", e.Name)
		case !errors.Is(err, errHeld) && ctx.Err() == nil:
			e.Log.Warn("contending for a lock", "lock", e.Name, "error", err)
		}
		e.pause(ctx)
	}
}

// pause waits for the next attempt; contenders that began together do not go on together.
func (e *Election) pause(ctx context.Context) {
	d := cmp.Or(e.Retry, retryPeriod)
	timer := time.NewTimer(d + rand.N(d/5+1)) //nolint:gosec // not a secret
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// term leads as long as the lock is held.
func (e *Election) term(ctx context.Context, c *candidate, lead func(context.Context)) {
	leading, end := context.WithCancel(ctx)
	defer end()
	done := make(chan struct{})
	go func() { defer close(done); lead(leading) }()
	renewed := time.Now()
	for {
		e.pause(leading)
		if ctx.Err() != nil {
			break
		}
		left := cmp.Or(e.Renew, renewDeadline) - time.Since(renewed)
		err := e.try(ctx, c, max(left, time.Millisecond))
		if err == nil {
			renewed = time.Now()
			continue
		}
		if errors.Is(err, errHeld) || time.Since(renewed) > cmp.Or(e.Renew, renewDeadline) {
			e.Log.Warn("a lock is lost", "lock", e.Name, "error", err)
			break
		}
	}
	end()
	<-done
	if ctx.Err() != nil {
		e.release(ctx, c)
	}
}

func (e *Election) locks() dynamic.ResourceInterface {
	return e.Client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(e.Namespace)
}

// try takes the lock, or renews it.
func (e *Election) try(ctx context.Context, c *candidate, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	lock, err := e.locks().Get(ctx, e.Name, metav1.GetOptions{})
	missing := apierrors.IsNotFound(err)
	if missing {
		lock, err = e.empty(), nil
	}
	if err != nil {
		return fmt.Errorf("reading ConfigMap %s/%s: %w", e.Namespace, e.Name, err)
	}
	r, ok := c.claim(lock.GetAnnotations()[leaderAnnotation], time.Now())
	if !ok {
		return fmt.Errorf("ConfigMap %s/%s: %w: %s", e.Namespace, e.Name, errHeld, r.Holder)
	}
	return e.write(ctx, lock, r, missing)
}

func (e *Election) empty() *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
	u.SetName(e.Name)
	u.SetNamespace(e.Namespace)
	return u
}

// write records a holder, provided that the lock is as it was read.
func (e *Election) write(ctx context.Context, lock *unstructured.Unstructured, r record, create bool) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	annotations := lock.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[leaderAnnotation] = string(text)
	lock.SetAnnotations(annotations)
	if create {
		_, err = e.locks().Create(ctx, lock, metav1.CreateOptions{})
	} else {
		_, err = e.locks().Update(ctx, lock, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s/%s: %w", e.Namespace, e.Name, err)
	}
	return nil
}

// release leaves the lock to whoever wants it.
func (e *Election) release(ctx context.Context, c *candidate) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	lock, err := e.locks().Get(ctx, e.Name, metav1.GetOptions{})
	if err == nil {
		r, mine := c.claim(lock.GetAnnotations()[leaderAnnotation], time.Now())
		if !mine {
			return
		}
		r.Holder, r.Key, r.Lease = "", "", 1
		err = e.write(ctx, lock, r, false)
	}
	if err != nil {
		e.Log.Info("a lock was not released", "lock", e.Name, "error", err)
	}
}
