package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"sigs.k8s.io/yaml"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

func unknownAny() map[string]*anypb.Any {
	return map[string]*anypb.Any{"x": {TypeUrl: "type.googleapis.com/nobody.knows.It", Value: []byte{8, 1}}}
}

// stockBootstrap returns the bootstrap of a node as a stock Envoy, and what it was made of.
func stockBootstrap(t *testing.T, p *Plane, node []byte) []byte {
	t.Helper()
	n, err := ReadNode(node)
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Ask(Stock(n), p.SubscriptionOf(n, nil))
	if err != nil {
		t.Fatal(err)
	}
	out, err := got.BootstrapJSON(n)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestBootstrapAsksNobodyForResources(t *testing.T) {
	t.Parallel()
	p, _ := startAt(t, filepath.Join("testdata", "shop"))
	n, err := ReadNode(nodeFile(t, "client.json"))
	if err != nil {
		t.Fatal(err)
	}
	got := ask(t, p, nodeFile(t, "client.json"))
	b, err := got.Bootstrap(n)
	if err != nil {
		t.Fatal(err)
	}
	visit(b.ProtoReflect(), func(m proto.Message) {
		if _, ok := m.(*corev3.AggregatedConfigSource); ok {
			t.Error("something is still asked for over ADS")
		}
	})
	if !proto.Equal(b.GetNode(), n) {
		t.Error("the node is not the given one")
	}
}

func TestEnvoyAcceptsTheBootstrap(t *testing.T) {
	t.Parallel()
	p, _ := startAt(t, filepath.Join("testdata", "shop"))
	server := strings.NewReplacer("client", "web-1", "10.1.0.1", "10.1.0.2", `"app": "web-1"`, `"app": "web"`)
	for name, node := range map[string]string{
		"client": string(nodeFile(t, "client.json")), "server": server.Replace(string(nodeFile(t, "client.json"))),
	} {
		if err := harness.ValidateEnvoy(t, stockBootstrap(t, p, []byte(node))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// startStatic starts an Envoy with what a bootstrap has of resources.
func startStatic(t *testing.T, bootstrap []byte) {
	t.Helper()
	var whole map[string]json.RawMessage
	if err := json.Unmarshal(bootstrap, &whole); err != nil {
		t.Fatal(err)
	}
	extra, err := yaml.Marshal(map[string]json.RawMessage{"static_resources": whole["static_resources"]})
	if err != nil {
		t.Fatal(err)
	}
	harness.NewEnvoy(t, harness.EnvoyOptions{Bootstrap: string(extra)})
}

// The bootstrap is all that an Envoy needs.
func TestEnvoyRunsOnTheBootstrap(t *testing.T) {
	t.Parallel()
	const answer = "static"
	backend := harness.NewHTTPBackend(t, harness.HTTPBackendOptions{Name: answer})
	port := harness.NewPort(t)
	dir := t.TempDir()
	manifests := fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: out, namespace: shop}
spec:
  hosts: [out.example.com]
  ports: [{number: %[1]d, name: http, protocol: HTTP}]
  resolution: STATIC
  endpoints: [{address: 127.0.0.1, ports: {http: %[2]d}}]
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: default, namespace: shop}
spec:
  egress:
  - {port: {number: %[1]d, protocol: HTTP, name: http}, bind: 127.0.0.1, captureMode: NONE, hosts: ["./*"]}
`, port.Number(), backend.Port())
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	p, in := startAt(t, dir)
	if len(in.Problems) > 0 {
		t.Fatal(in.Problems)
	}
	node := strings.Replace(string(nodeFile(t, "client.json")), "REDIRECT", "NONE", 1)
	startStatic(t, stockBootstrap(t, p, []byte(node)))
	client := harness.NewClient(harness.ClientOptions{})
	t.Cleanup(client.Close)
	call := harness.HTTPCall(client, "http://127.0.0.1:"+strconv.Itoa(port.Number())+"/", "out.example.com")
	harness.Eventually(t, 20*time.Second, func(ctx context.Context) error {
		label, err := call(ctx)
		if err == nil && label != answer {
			return fmt.Errorf("%q answered", label)
		}
		return err
	})
}
