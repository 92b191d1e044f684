package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/source/convert"
	"github.com/mizzen-mesh/mizzen/pilot/source/file"
	"github.com/mizzen-mesh/mizzen/pilot/source/selection"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// manifests are objects of most kinds, as users write them.
const manifests = `
apiVersion: v1
kind: Namespace
metadata: {name: shop, labels: {istio-injection: enabled}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop, annotations: {networking.istio.io/exportTo: "."}}
spec: {selector: {app: web}, clusterIP: 10.96.7.7, ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 81}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, namespace: shop, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
endpoints: [{addresses: [10.1.0.1], conditions: {ready: true}, nodeName: n1}]
ports: [{name: http, port: 8080}]
---
apiVersion: v1
kind: Pod
metadata: {name: web-a, namespace: shop, labels: {app: web}}
spec: {serviceAccountName: web, containers: [{name: app, image: "app:1", ports: [{containerPort: 8080}]}]}
---
apiVersion: v1
kind: Node
metadata: {name: shop, labels: {topology.kubernetes.io/region: r}}
---
apiVersion: v1
kind: Secret
metadata: {name: cert, namespace: shop}
stringData: {tls.crt: abc, tls.key: def, other: ghi}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: ca, namespace: shop}
data: {ca.crt: abc, other: def}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: in, namespace: shop}
spec: {rules: [{host: a.example.com, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: VirtualService
metadata: {name: vs, namespace: shop}
spec: {hosts: [web], http: [{timeout: 5s, route: [{destination: {host: web, port: {number: 80}}, weight: 100}]}]}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: ef, namespace: shop}
spec: {configPatches: [{applyTo: CLUSTER, patch: {operation: MERGE, value: {a: 1, b: 1.5, c: [true, null, "x"]}}}]}
---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: t, namespace: shop}
spec: {tracing: [{randomSamplingPercentage: 10}]}
`

// gatewayManifests lack everything that its definitions have defaults for.
const gatewayManifests = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw, namespace: shop}
spec:
  gatewayClassName: istio
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: tls, port: 443, protocol: HTTPS, hostname: a.example.com, tls: {certificateRefs: [{name: cert}]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: hr, namespace: shop}
spec:
  parentRefs: [{name: gw}]
  rules:
  - backendRefs: [{name: web, port: 80}]
  - matches: [{headers: [{name: a, value: b}]}, {path: {value: /x}, queryParams: [{name: q, value: v}]}]
    filters:
    - {type: RequestRedirect, requestRedirect: {hostname: b.example.com}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: GRPCRoute
metadata: {name: gr, namespace: shop}
spec: {parentRefs: [{name: gw}], rules: [{matches: [{method: {service: s}, headers: [{name: a, value: b}]}], backendRefs: [{name: web, port: 80}]}]}
`

// cluster is a real API server with a source that reads it.
type cluster struct {
	*testing.T
	server *harness.APIServer
	client dynamic.Interface
	sink   *recorder
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{T: t, sink: newRecorder()}
	c.server = harness.NewAPIServer(t, harness.APIServerOptions{CRDs: []harness.CRDs{harness.IstioCRDs()}})
	config := c.server.Config()
	var err error
	if c.client, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) run(opts Options) {
	c.Helper()
	opts.Config = c.server.Config()
	s, err := New(opts)
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, c.sink) }()
	c.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			c.Error(err)
		}
	})
}

func (c *cluster) resource(u *unstructured.Unstructured) dynamic.ResourceInterface {
	r, match := convert.NewCatalog().Lookup(u.GetAPIVersion(), u.GetKind())
	if match != convert.Known {
		c.Fatalf("unknown kind %s", u.GetKind())
	}
	gvr := schema.FromAPIVersionAndKind(u.GetAPIVersion(), u.GetKind()).GroupVersion().WithResource(r.Plural)
	return c.client.Resource(gvr).Namespace(u.GetNamespace())
}

func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	for doc := range strings.SplitSeq(text, "\n---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
			t.Fatal(err)
		}
		out = append(out, u)
	}
	return out
}

// create creates objects; an API server that has just got a definition or a restart may take a while to serve.
func (c *cluster) create(text string) (created []*unstructured.Unstructured) {
	c.Helper()
	for _, u := range parse(c.T, text) {
		eventually(c.T, "creating "+u.GetName(), func() error {
			got, err := c.resource(u).Create(c.Context(), u, metav1.CreateOptions{})
			if err == nil {
				created = append(created, got)
			}
			return err
		})
	}
	return created
}

func (c *cluster) delete(u *unstructured.Unstructured) {
	c.Helper()
	eventually(c.T, "deleting "+u.GetName(), func() error {
		zero := int64(0)
		err := c.resource(u).Delete(c.Context(), u.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &zero})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
}

// sameAsFile checks that the source's objects are what the file source makes of the same manifests: as the cluster
// returns them, and as the user wrote them if written is not empty.
func (c *cluster) sameAsFile(returned []*unstructured.Unstructured, written string) {
	c.Helper()
	for _, u := range returned {
		text, err := json.Marshal(u.Object)
		if err != nil {
			c.Fatal(err)
		}
		c.same("returned", text)
	}
	if written == "" {
		return
	}
	for doc := range strings.SplitSeq(written, "\n---\n") {
		c.same("written", []byte(doc))
	}
}

func (c *cluster) same(what string, text []byte) {
	c.Helper()
	objects, problems := file.Decode("f.yaml", text)
	if len(problems) > 0 || len(objects) != 1 {
		c.Fatalf("%v in %s", problems, text)
	}
	want := objects[0]
	eventually(c.T, want.String(), func() error {
		got := c.sink.object(want.ObjectKey)
		if got == nil {
			return errors.New("not there")
		}
		x, y := *got, *want
		x.Created, x.Generation = y.Created, y.Generation
		if !convert.Equal(&x, &y) {
			a, _ := json.Marshal(got.Spec)
			b, _ := json.Marshal(want.Spec)
			return fmt.Errorf("%s differs:\ncluster %s %s\nfile    %s %s", what, a, got.Labels, b, want.Labels)
		}
		return nil
	})
}

// TestCluster goes through a cluster's life: one API server for all of it, since starting one takes long.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	objects := c.create(manifests)
	c.run(Options{Revision: "blue", SystemNamespace: "istio-system"})
	c.sink.waitSynced(t)
	const all = "ConfigMap/shop/ca EndpointSlice/shop/web-1 EnvoyFilter/shop/ef Ingress/shop/in Namespace//shop Node//shop " +
		"Pod/shop/web-a Secret/shop/cert Service/shop/web Telemetry/shop/t VirtualService/shop/vs"
	c.sink.wait(t, all)
	c.sameAsFile(objects, "")

	// Definitions that come later.
	if err := c.server.Install(t.Context(), harness.GatewayCRDs()); err != nil {
		t.Fatal(err)
	}
	gateways := c.create(gatewayManifests)
	c.sameAsFile(gateways, strings.TrimSpace(gatewayManifests))

	// Updates and deletions, also of an API server that was away.
	vs := objects[8]
	if err := c.server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := c.server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.delete(objects[10])
	eventually(t, "updating", func() error {
		now, err := c.resource(vs).Get(t.Context(), vs.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		now.SetLabels(map[string]string{selection.RevisionLabel: "green"})
		_, err = c.resource(vs).Update(t.Context(), now, metav1.UpdateOptions{})
		return err
	})
	c.delete(objects[3])
	const fewer = "ConfigMap/shop/ca EndpointSlice/shop/web-1 EnvoyFilter/shop/ef GRPCRoute/shop/gr HTTPRoute/shop/hr Ingress/shop/in " +
		"KubernetesGateway/shop/gw Namespace//shop Node//shop Secret/shop/cert Service/shop/web"
	c.sink.wait(t, fewer)

	// A definition that goes takes its objects along.
	crds := c.client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	if err := crds.Delete(t.Context(), "httproutes.gateway.networking.k8s.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.sink.wait(t, strings.Replace(fewer, "HTTPRoute/shop/hr ", "", 1))
	if c.sink.object(model.ObjectKey{Kind: model.KindVirtualService, Namespace: "shop", Name: "vs"}) != nil {
		t.Error("another revision's object is here")
	}
}
