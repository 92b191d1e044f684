package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	networking "istio.io/api/networking/v1alpha3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"

	"github.com/mizzen-mesh/mizzen/pilot/allocate"
	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
)

const (
	// AddressesName is what the writer of addresses is called among the sources of problems.
	AddressesName = "ip-autoallocate"
	// AddressesLock is the lock whose holder writes them, istiod's own.
	AddressesLock = "istio-ip-autoallocate"
	// writers is how many patches are under way at a time; the client's limit of requests is the tighter one.
	writers = 8
)

// AddressOptions are what a writer of addresses is made with.
type AddressOptions struct {
	Log    *slog.Logger
	Client dynamic.Interface
	// Source is the name of the source that reads the cluster; nobody else's objects are written.
	Source string
	Ranges allocate.Ranges
	// Election decides who writes; nil means always this one.
	Election *Election
	// Close, if set, is called when Run ends: it closes the client's connections.
	Close func()
}

// Addresses writes the addresses of ServiceEntries into status.addresses.
type Addresses struct {
	opts   AddressOptions // fixed at construction, as client
	client dynamic.NamespaceableResourceInterface
	synced chan struct{} // closed when the source has synced

	mu        sync.Mutex // guards the rest
	objects   map[model.ObjectKey]*model.Object
	allocator *allocate.Allocator // nil unless leading, as queue
	queue     workqueue.TypedRateLimitingInterface[model.ObjectKey]
	without   map[model.ObjectKey]error
	report    func([]source.Problem)
}

// NewAddresses returns a writer. It does not talk to the cluster yet.
func NewAddresses(o AddressOptions) *Addresses {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	resource := convert.NewCatalog().Kind(model.KindServiceEntry).Watched()
	return &Addresses{
		opts: o, client: o.Client.Resource(resource), synced: make(chan struct{}),
		objects: map[model.ObjectKey]*model.Object{}, without: map[model.ObjectKey]error{}, report: func([]source.Problem) {},
	}
}

// Observe takes what sources deliver, of whatever kind. It may be called from any goroutine.
func (a *Addresses) Observe(name string, events []model.Event) {
	if name != a.opts.Source || !slices.ContainsFunc(events, func(e model.Event) bool { return e.Key.Kind == model.KindServiceEntry }) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range events {
		switch {
		case e.Key.Kind != model.KindServiceEntry:
		case e.Object == nil:
			delete(a.objects, e.Key)
		default:
			a.objects[e.Key] = e.Object
		}
	}
	a.apply(events)
}

// Synced says that a source has delivered what it had at its start. Nothing is written before the cluster's has.
func (a *Addresses) Synced(name string) {
	if name == a.opts.Source {
		close(a.synced)
	}
}

// apply brings the allocator up to date, if there is one. The lock is held.
func (a *Addresses) apply(events []model.Event) {
	if a.allocator == nil {
		return
	}
	changed := false
	for _, k := range a.allocator.Apply(events) {
		w := a.allocator.Want(k)
		if w.Differs {
			a.queue.Add(k)
		}
		if w.Err != nil || a.without[k] != nil {
			changed = true
			if a.without[k] = w.Err; w.Err == nil {
				delete(a.without, k)
			}
		}
	}
	if changed {
		a.tell()
	}
}

// tell reports who goes without addresses. The lock is held.
func (a *Addresses) tell() {
	var out []source.Problem
	for _, k := range slices.SortedFunc(maps.Keys(a.without), model.ObjectKey.Compare) {
		out = append(out, allocate.Problem(k, a.without[k]))
	}
	a.report(out)
}

// Run writes, while this control plane leads, until ctx ends. report is told which objects go without addresses.
func (a *Addresses) Run(ctx context.Context, report func([]source.Problem)) {
	if a.opts.Close != nil {
		defer a.opts.Close()
	}
	select {
	case <-a.synced:
	case <-ctx.Done():
		return
	}
	a.mu.Lock()
	a.report = report
	a.mu.Unlock()
	if a.opts.Election == nil {
		a.lead(ctx)
		return
	}
	a.opts.Election.Run(ctx, a.lead)
}

// lead allocates and writes until ctx ends. What was decided in an earlier term counts as far as it is written.
func (a *Addresses) lead(ctx context.Context) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[model.ObjectKey]())
	a.mu.Lock()
	a.allocator, a.queue = allocate.New(a.opts.Ranges), queue
	events := make([]model.Event, 0, len(a.objects))
	for k, o := range a.objects {
		events = append(events, model.Event{Key: k, Object: o})
	}
	a.apply(events)
	a.mu.Unlock()
	var group sync.WaitGroup
	for range writers {
		group.Go(func() {
			for a.next(ctx, queue) {
			}
		})
	}
	<-ctx.Done()
	a.mu.Lock()
	a.allocator, a.queue = nil, nil
	if len(a.without) > 0 {
		clear(a.without)
		a.tell()
	}
	a.mu.Unlock()
	queue.ShutDown()
	group.Wait()
}

// next writes what is due first, and returns false at the end.
func (a *Addresses) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[model.ObjectKey]) bool {
	k, end := queue.Get()
	if end {
		return false
	}
	defer queue.Done(k)
	err := a.write(ctx, k)
	switch {
	case err == nil:
		queue.Forget(k)
	case ctx.Err() != nil:
	default:
		if !errors.Is(err, errStale) {
			a.opts.Log.Warn("addresses are not written", "error", err, "retries", queue.NumRequeues(k))
		}
		queue.AddRateLimited(k)
	}
	return true
}

// want returns what is wanted of an object now, and false if there is nothing to do.
func (a *Addresses) want(k model.ObjectKey) (allocate.Want, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.allocator == nil {
		return allocate.Want{}, false
	}
	w := a.allocator.Want(k)
	return w, w.Differs
}

// write brings the status of an object up to date.
func (a *Addresses) write(ctx context.Context, k model.ObjectKey) error {
	w, ok := a.want(k)
	if !ok {
		return nil
	}
	err := a.patch(ctx, k, fromKnown(w))
	if apierrors.IsInvalid(err) {
		// The status is not what we know, or has a form that we cannot know: an empty list is the same to us as none.
		var patch []operation
		if patch, err = a.fromLive(ctx, k, w); err == nil && patch != nil {
			err = a.patch(ctx, k, patch)
		}
	}
	if apierrors.IsNotFound(err) {
		return nil // its event is on the way
	}
	if err != nil {
		return fmt.Errorf("writing the addresses of %s: %w", k, err)
	}
	return nil
}

// operation is one step of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const (
	statusPath    = "/status"
	addressesPath = "/status/addresses"
)

// replacing returns the patch that applies if what is at path is what it was: null for nothing.
func replacing(path string, was, value any) []operation {
	op := "replace"
	if was == nil {
		op = "add"
	}
	return []operation{{"test", path, was}, {op, path, value}}
}

// address is an element of status.addresses.
type address struct {
	Value string `json:"value,omitempty"`
	Host  string `json:"host,omitempty"`
}

func list(of []*networking.ServiceEntryAddress) []address {
	out := make([]address, 0, len(of))
	for _, x := range of {
		out = append(out, address{x.GetValue(), x.GetHost()})
	}
	return out
}

// fromKnown returns the patch of an object whose status is as it was last seen.
func fromKnown(w allocate.Want) []operation {
	s, ok := w.Object.Status.(*networking.ServiceEntryStatus)
	switch {
	case !ok || s == nil:
		return replacing(statusPath, nil, map[string]any{"addresses": list(w.Addresses)})
	case len(s.GetAddresses()) == 0:
		return replacing(addressesPath, nil, list(w.Addresses))
	}
	return replacing(addressesPath, list(s.GetAddresses()), list(w.Addresses))
}

// errStale says that the cluster has a newer object than we know: its event will say what to do.
var errStale = errors.New("the status has changed meanwhile")

// fromLive reads an object and returns its patch, nil if it needs none.
func (a *Addresses) fromLive(ctx context.Context, k model.ObjectKey, w allocate.Want) ([]operation, error) {
	live, err := a.client.Namespace(k.Namespace).Get(ctx, k.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	has, found, err := unstructured.NestedFieldNoCopy(live.Object, "status", "addresses")
	if err != nil {
		return nil, err
	}
	current := addressesOf(has)
	if allocate.Same(current, w.Addresses) {
		return nil, nil
	}
	known, _ := w.Object.Status.(*networking.ServiceEntryStatus)
	switch {
	case !allocate.Same(current, known.GetAddresses()):
		return nil, errStale
	case live.Object["status"] == nil:
		return replacing(statusPath, nil, map[string]any{"addresses": list(w.Addresses)}), nil
	case !found:
		has = nil
	}
	return replacing(addressesPath, has, list(w.Addresses)), nil
}

func addressesOf(field any) []*networking.ServiceEntryAddress {
	elements, _ := field.([]any)
	var out []*networking.ServiceEntryAddress
	for _, e := range elements {
		fields, _ := e.(map[string]any)
		value, _ := fields["value"].(string)
		host, _ := fields["host"].(string)
		out = append(out, &networking.ServiceEntryAddress{Value: value, Host: host})
	}
	return out
}

func (a *Addresses) patch(ctx context.Context, k model.ObjectKey, operations []operation) error {
	text, err := json.Marshal(operations)
	if err != nil {
		return err
	}
	_, err = a.client.Namespace(k.Namespace).Patch(ctx, k.Name, types.JSONPatchType, text, metav1.PatchOptions{}, "status")
	return err
}
