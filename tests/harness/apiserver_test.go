package harness

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfigClient is a client made from the kubeconfig file, as a program would.
func kubeconfigClient(t *testing.T, s *APIServer) dynamic.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestAPIServerKeepsIstioAndGatewayObjects(t *testing.T) {
	t.Parallel()
	s := shared.Get(t)
	client := kubeconfigClient(t, s)
	namespace := s.Namespace(t, "harness")
	for resource, object := range map[schema.GroupVersionResource]map[string]any{
		{Group: "networking.istio.io", Version: "v1", Resource: "virtualservices"}: {
			"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"hosts": []any{"reviews"}},
		},
		{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}: {
			"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": map[string]any{"name": "a"},
			"spec": map[string]any{"hostnames": []any{"reviews.example"}},
		},
	} {
		objects := client.Resource(resource).Namespace(namespace)
		if _, err := objects.Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
}

func TestAPIServerComesBackOnTheSamePort(t *testing.T) {
	t.Parallel()
	s := NewAPIServer(t, APIServerOptions{})
	client := kubeconfigClient(t, s)
	namespace := s.Namespace(t, "kept")
	names := func(ctx context.Context) ([]string, error) {
		list, err := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var names []string
		for i := range list.Items {
			names = append(names, list.Items[i].GetName())
		}
		return names, nil
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := names(t.Context()); err == nil {
		t.Error("a killed server answers")
	}
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	Eventually(t, time.Minute, func(ctx context.Context) error {
		got, err := names(ctx)
		if err == nil && !slices.Contains(got, namespace) {
			err = fmt.Errorf("%s is not among %v", namespace, got)
		}
		return err
	})
}

func TestCRDsComeFromTheirModules(t *testing.T) {
	t.Parallel()
	for _, set := range []CRDs{IstioCRDs(), GatewayCRDs(), ExperimentalGatewayCRDs()} {
		objects, err := set.Objects(t.Context())
		if err != nil || len(objects) < 8 {
			t.Errorf("%s: got %d objects, %v", set.Module, len(objects), err)
		}
	}
	if _, err := (CRDs{Module: "istio.io/api", Glob: "none/*.yaml"}).Objects(t.Context()); err == nil {
		t.Error("a set without files is no error")
	}
}
