package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
)

// Options say what a Source reads.
type Options struct {
	// Name is the cluster's; it is the source's name and the origin of its objects. Empty means "kubernetes".
	Name   string
	Config *rest.Config
	// QPS and Burst limit requests to the API server; 0 means 80 and 160, a negative QPS no limit.
	QPS   float32
	Burst int
	// SystemNamespace is where the control plane lives: its remote secrets are read whatever the selectors say.
	SystemNamespace string
	// Revision of the control plane: custom resources labelled with another one are left out. Empty takes all.
	Revision string
	// Namespace restricts namespaced kinds to one namespace (ISTIO_WATCH_NAMESPACE); empty means all.
	Namespace string
	// Selectors choose namespaces by their labels (meshConfig.discoverySelectors); see selection.Parse.
	Selectors []labels.Selector
	// Kinds to read; nil means all but those of experimental APIs.
	Kinds []model.Kind
	// Ignore and Include list definitions to treat as absent, and exceptions (PILOT_IGNORE_RESOURCES and
	// PILOT_INCLUDE_RESOURCES): names such as "sidecars.networking.istio.io", or "*.group-suffix".
	Ignore, Include []string
	// Patience is how long reading may be refused before it is believed; 0 means 30 s. See Source.Run.
	Patience time.Duration
}

// Source reads one cluster.
type Source struct {
	clients   *clients
	resources []*convert.Resource

	mu   sync.Mutex // guards the rest
	opts Options    // only the selectors change
	hub  *hub       // nil unless running
}

var _ source.Source = (*Source)(nil)

// New returns a source. It does not talk to the cluster yet.
func New(opts Options) (*Source, error) {
	if opts.Name == "" {
		opts.Name = "kubernetes"
	}
	if opts.Patience == 0 {
		opts.Patience = 30 * time.Second
	}
	s := &Source{opts: opts}
	var err error
	if s.clients, err = newClients(opts); err != nil {
		return nil, fmt.Errorf("cluster %s: %w", opts.Name, err)
	}
	for _, r := range convert.NewCatalog().All() {
		wanted := r.Kind != model.KindUDPRoute // experimental
		if opts.Kinds != nil {
			wanted = slices.Contains(opts.Kinds, r.Kind)
		}
		if r.CustomResource() && listed(r.CRD(), opts.Ignore) && !listed(r.CRD(), opts.Include) {
			wanted = false
		}
		// Selectors need the namespaces.
		if wanted || r.Kind == model.KindNamespace {
			s.resources = append(s.resources, r)
		}
	}
	return s, nil
}

// Name returns the cluster's name.
func (s *Source) Name() string { return s.opts.Name }

// Select replaces the selectors of namespaces. Objects that come and go by it are delivered as created and deleted.
func (s *Source) Select(selectors []labels.Selector) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opts.Selectors = selectors
	if s.hub != nil {
		s.hub.selectNamespaces(selectors)
	}
}

// Run delivers the cluster's objects until ctx ends. It is synced when each kind that the cluster has is. A kind that
// the control plane may not read, or whose definition is not served, counts as empty after Options.Patience, with a
// problem; but without Services, EndpointSlices, Pods and Namespaces there is no mesh, and no sync.
func (s *Source) Run(ctx context.Context, sink source.Sink) error {
	defer s.clients.close()
	s.mu.Lock()
	h := newHub(s.opts.Name, s.opts.SystemNamespace, s.opts.Revision, sink, s.opts.Selectors)
	s.hub = h
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.hub = nil
		s.mu.Unlock()
	}()
	r := &runner{
		opts: s.opts, clients: s.clients, hub: h, kinds: map[model.Kind]*reading{},
		pending: map[string]bool{definitionsName: true},
	}
	r.synced = sync.OnceFunc(func() { sink.Synced(s.opts.Name) })
	r.run(ctx, s.resources)
	return nil
}

// definitionsName stands for the definitions among the names of kinds.
const definitionsName = "customresourcedefinitions"

// runner is a Source at work.
type runner struct {
	opts    Options
	clients *clients
	hub     *hub
	synced  func() // once
	group   sync.WaitGroup

	mu      sync.Mutex // guards the rest
	kinds   map[model.Kind]*reading
	pending map[string]bool // what the first sync waits for
	ready   bool            // the definitions are known
}

// reading is a kind being read.
type reading struct {
	stop context.CancelFunc
	done chan struct{}
}

func (r *runner) run(ctx context.Context, resources []*convert.Resource) {
	crds := &definitions{known: map[string]*convert.Resource{}, on: map[string]bool{}}
	crds.changed = func(res *convert.Resource, on bool) {
		if on {
			r.start(ctx, res)
		} else {
			r.stop(res)
		}
	}
	crds.synced = func() { r.done(definitionsName) }
	for _, res := range resources {
		if res.CustomResource() {
			crds.known[res.CRD()] = res
		}
	}
	for _, res := range resources {
		if !res.CustomResource() {
			r.start(ctx, res)
		}
	}
	watch := r.observe(ctx, definitionsName, r.clients.definitions(), func() {
		// Not allowed to see them: try them all.
		for name := range crds.known {
			crds.set(name, true)
		}
		r.done(definitionsName)
	})
	r.reflect(ctx, definitionsName, watch, &metav1.PartialObjectMetadata{}, crds)
	r.group.Wait()
}

// start begins to read a kind.
func (r *runner) start(ctx context.Context, res *convert.Resource) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil || r.kinds[res.Kind] != nil {
		return
	}
	ctx, stop := context.WithCancel(ctx)
	k := &reading{stop: stop, done: make(chan struct{})}
	r.kinds[res.Kind] = k
	name := res.Watched().GroupResource().String()
	if r.pending != nil {
		r.pending[name] = true
	}
	r.group.Go(func() {
		defer close(k.done)
		r.read(ctx, name, res)
	})
}

func (r *runner) read(ctx context.Context, name string, res *convert.Resource) {
	t := &table{hub: r.hub, resource: res, replaced: func() { r.done(name) }}
	watch := r.observe(ctx, name, r.clients.listWatch(res, r.opts.Namespace), func() {
		if !essential(res.Kind) {
			r.done(name)
		}
	})
	var expected any = res.NewTyped()
	if res.CustomResource() {
		expected = &unstructured.Unstructured{}
	}
	r.reflect(ctx, name, watch, expected, t)
}

func essential(k model.Kind) bool {
	switch k {
	case model.KindService, model.KindEndpointSlice, model.KindPod, model.KindNamespace:
		return true
	}
	return false
}

// reflect runs client-go's reflector until ctx ends.
func (r *runner) reflect(ctx context.Context, name string, lw cache.ListerWatcher, expected any, store cache.ReflectorStore) {
	backoff := &wait.Backoff{Duration: 200 * time.Millisecond, Cap: 15 * time.Second, Steps: 20, Factor: 2, Jitter: 1}
	cache.NewReflectorWithOptions(lw, expected, store, cache.ReflectorOptions{
		Name: r.opts.Name + "/" + name, TypeDescription: name, Backoff: backoff,
	}).RunWithContext(ctx)
}

// stop ends the reading of a kind, and takes its objects away: they went with their definition.
func (r *runner) stop(res *convert.Resource) {
	r.mu.Lock()
	k := r.kinds[res.Kind]
	delete(r.kinds, res.Kind)
	r.mu.Unlock()
	if k == nil {
		return
	}
	k.stop()
	<-k.done
	r.hub.replace(res.Kind, nil)
	name := res.Watched().GroupResource().String()
	r.hub.failed(name, nil)
	r.done(name)
}

// done notes that something that the first sync may wait for is there.
func (r *runner) done(name string) {
	r.mu.Lock()
	delete(r.pending, name)
	all := r.pending != nil && len(r.pending) == 0
	if all {
		r.pending = nil
	}
	r.mu.Unlock()
	if all {
		r.synced()
	}
}

// observe watches over attempts to read. When all have been refused for as long as patience lasts, it calls refused
// once. An API server that starts up refuses a lot.
func (r *runner) observe(ctx context.Context, name string, lw cache.ListerWatcherWithContext, refused func()) cache.ListerWatcher {
	var mu sync.Mutex
	var since time.Time
	told := false
	return observed{ListerWatcherWithContext: lw, outcome: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			since = time.Time{}
			r.hub.failed(name, nil)
		case apierrors.IsForbidden(err) || apierrors.IsNotFound(err):
			if since.IsZero() {
				since = time.Now()
			}
			if time.Since(since) < r.opts.Patience {
				return
			}
			r.hub.failed(name, err)
			if !told {
				told = true
				refused()
			}
		}
	}}
}
