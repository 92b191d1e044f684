package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
)

// The limits of requests, as istiod has them.
const (
	defaultQPS   = 80
	defaultBurst = 160
)

// clients are the ways to one API server: typed and in protobuf for Kubernetes' own kinds, trees for custom resources,
// metadata only for definitions. They share connections and the rate limit.
type clients struct {
	http     *http.Client
	typed    map[string]rest.Interface // by API group
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

func newClients(opts Options) (*clients, error) {
	config := rest.CopyConfig(opts.Config)
	config.Timeout = 0 // it would end watches, too
	config.QPS, config.Burst = cmp.Or(opts.QPS, defaultQPS), cmp.Or(opts.Burst, defaultBurst)
	if config.RateLimiter == nil && config.QPS > 0 {
		config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, max(config.Burst, 1))
	}
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = runtime.ContentTypeProtobuf
	protobuf.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	var c clients
	var err error
	if c.http, err = rest.HTTPClientFor(config); err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	if c.typed, err = typedClients(protobuf, c.http); err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, c.http); err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(metadata.ConfigFor(config), c.http); err != nil {
		return nil, fmt.Errorf("connecting to the API server: %w", err)
	}
	return &c, nil
}

// typedClients returns a client for each group whose kinds are Go types. The generated set of all clients would link
// every kind of every group: 20 MB of the process.
func typedClients(config *rest.Config, client *http.Client) (map[string]rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), discoveryv1.AddToScheme(scheme), networkingv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	out := map[string]rest.Interface{}
	for _, gv := range []schema.GroupVersion{corev1.SchemeGroupVersion, discoveryv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion} {
		config.GroupVersion, config.APIPath = &gv, "/apis"
		if gv.Group == "" {
			config.APIPath = "/api"
		}
		c, err := rest.RESTClientForConfigAndClient(config, client)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", gv, err)
		}
		out[gv.Group] = c
	}
	return out, nil
}

func (c *clients) close() { c.http.CloseIdleConnections() }

// listWatch returns the way to read a resource; an empty namespace means all.
func (c *clients) listWatch(r *convert.Resource, namespace string) *cache.ListWatch {
	if !r.Namespaced {
		namespace = ""
	}
	selector := func(o *metav1.ListOptions) { o.FieldSelector = r.FieldSelector() }
	if r.CustomResource() {
		client := c.dynamic.Resource(r.Watched()).Namespace(namespace)
		return &cache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return client.List(ctx, o)
			},
			WatchFuncWithContext: client.Watch,
		}
	}
	return cache.NewFilteredListWatchFromClient(c.typed[r.Group], r.Plural, namespace, selector)
}

// ConfigMap returns the way to read one ConfigMap of the cluster.
func ConfigMap(config *rest.Config, namespace, name string) (cache.ListerWatcher, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	typed, err := typedClients(config, client)
	if err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s/%s: %w", namespace, name, err)
	}
	return cache.NewListWatchFromClient(typed[corev1.GroupName], "configmaps", namespace,
		fields.OneTermEqualSelector(metav1.ObjectNameField, name)), nil
}

func (c *clients) definitions() *cache.ListWatch {
	client := c.metadata.Resource(schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	})
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, o)
		},
		WatchFuncWithContext: client.Watch,
	}
}

// observed tells of the outcome of each attempt to read.
type observed struct {
	cache.ListerWatcherWithContext
	outcome func(error)
}

var _ cache.ListerWatcherWithContext = observed{}

// ListWithContext implements cache.ListerWithContext.
func (o observed) ListWithContext(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
	list, err := o.ListerWatcherWithContext.ListWithContext(ctx, opts)
	o.outcome(err)
	return list, err
}

// WatchWithContext implements cache.WatcherWithContext.
func (o observed) WatchWithContext(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error) {
	w, err := o.ListerWatcherWithContext.WatchWithContext(ctx, opts)
	o.outcome(err)
	return w, err
}

// List implements cache.Lister, which the reflector's constructor asks for but does not call.
func (o observed) List(opts metav1.ListOptions) (runtime.Object, error) {
	return o.ListWithContext(context.TODO(), opts)
}

// Watch implements cache.Watcher; see List.
func (o observed) Watch(opts metav1.ListOptions) (watch.Interface, error) {
	return o.WatchWithContext(context.TODO(), opts)
}
