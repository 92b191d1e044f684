package meshconfig

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// The keys of a ConfigMap that holds mesh configuration.
const (
	ConfigKey   = "mesh"
	NetworksKey = "meshNetworks"
)

// ConfigMap is an input of one ConfigMap of a cluster, which may be missing.
type ConfigMap struct {
	// Source lists and watches the ConfigMap, and may give others besides.
	Source          cache.ListerWatcher
	Namespace, Name string
}

// BaseName returns the name of the ConfigMap of a revision: "istio", or "istio-<revision>".
func BaseName(revision string) string {
	if revision == "" || revision == "default" {
		return "istio"
	}
	return "istio-" + revision
}

// Run implements Input. The first call of put waits for the cluster's answer.
func (c ConfigMap) Run(ctx context.Context, put func(Texts)) error {
	informer := cache.NewSharedInformer(c.Source, &corev1.ConfigMap{}, 0)
	changed := make(chan struct{}, 1)
	note := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { note() }, UpdateFunc: func(any, any) { note() }, DeleteFunc: func(any) { note() },
	})
	if err != nil {
		return fmt.Errorf("watching ConfigMap %s/%s: %w", c.Namespace, c.Name, err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return nil
	}
	for {
		put(c.texts(informer.GetStore()))
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func (c ConfigMap) texts(store cache.Store) Texts {
	t := Texts{Name: "ConfigMap " + c.Namespace + "/" + c.Name}
	item, ok, err := store.GetByKey(c.Namespace + "/" + c.Name)
	if err != nil || !ok {
		return t
	}
	if cm, ok := item.(*corev1.ConfigMap); ok {
		t.Config, t.Networks = bytesOf(cm, ConfigKey), bytesOf(cm, NetworksKey)
	}
	return t
}

func bytesOf(cm *corev1.ConfigMap, key string) []byte {
	text, ok := cm.Data[key]
	if !ok {
		return nil
	}
	return []byte(text)
}
