package envoy

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// lateness is how long every answer with endpoints takes on a stage.
const lateness = 500 * time.Millisecond

// stage is a caller with a sidecar and three workloads without, whose control plane is late with endpoints. The
// sidecar listens for two service ports; every workload serves both application ports.
type stage struct {
	dir    string
	ports  [2]int // of services
	apps   [2]int // of applications
	plane  *plane
	relay  *harness.Relay
	caller *harness.Envoy
	client *harness.Client
}

// workloads of a stage.
const workloads = 3

func newStage(t *testing.T, protocol harness.XDSProtocol) *stage {
	t.Helper()
	harness.NeedTool(t, harness.EnvoyTool)
	s := &stage{dir: t.TempDir(), client: harness.NewClient(harness.ClientOptions{})}
	t.Cleanup(s.client.Close)
	for i := range s.ports {
		p, err := world.NewPorts()
		if err != nil {
			t.Fatal(err)
		}
		s.ports[i], s.apps[i] = p.Service, p.App
	}
	for w := 1; w <= workloads; w++ {
		for i, port := range s.apps {
			harness.NewHTTPBackend(t, harness.HTTPBackendOptions{Name: answerOf(w, i), Listen: net.JoinHostPort(world.VersionIP(w), strconv.Itoa(port))})
		}
	}
	write(t, s.dir, "base.yaml", s.base())
	s.plane = startPlane(t, s.dir, "127.0.0.1:0", nil)
	s.relay = harness.NewRelay(t, harness.RelayOptions{Target: s.plane.GRPC.String(), Delay: func(typeURL string) time.Duration {
		if typeURL == translate.EndpointType {
			return lateness
		}
		return 0
	}})
	s.caller = callerEnvoy(t, s.relay.Address(), protocol)
	return s
}

// callerEnvoy starts the sidecar of the workload "caller".
func callerEnvoy(t *testing.T, address string, protocol harness.XDSProtocol) *harness.Envoy {
	t.Helper()
	return harness.NewEnvoy(t, harness.EnvoyOptions{
		NodeID:     fmt.Sprintf("sidecar~%s~caller.%s~%s.svc.cluster.local", world.CallerIP, world.Namespace, world.Namespace),
		Metadata:   map[string]any{"NAMESPACE": world.Namespace, "INSTANCE_IPS": world.CallerIP, "CLUSTER_ID": "Kubernetes", "INTERCEPTION_MODE": "NONE", "NAME": "caller"},
		XDSAddress: address, XDSProtocol: protocol,
	})
}

// answerOf names what serves the i-th application port of a workload.
func answerOf(workload, i int) string { return fmt.Sprintf("w%d-%d", workload, i) }

// base are the manifests that stay.
func (s *stage) base() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", world.Namespace)
	for w := 1; w <= workloads; w++ {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: w%[1]d, namespace: %[2]s, labels: {version: v%[1]d}}
spec: {containers: [{name: app, image: app}]}
status: {phase: Running, podIP: %[3]s, podIPs: [{ip: %[3]s}], conditions: [{type: Ready, status: 'True'}]}
`, w, world.Namespace, world.VersionIP(w))
	}
	fmt.Fprintf(&b, `---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: caller, namespace: %[1]s}
spec:
  outboundTrafficPolicy: {mode: REGISTRY_ONLY}
  egress:
  - {port: {number: %[2]d, protocol: HTTP, name: http}, bind: %[4]s, captureMode: NONE, hosts: ["./*"]}
  - {port: {number: %[3]d, protocol: HTTP, name: http2}, bind: %[4]s, captureMode: NONE, hosts: ["./*"]}
`, world.Namespace, s.ports[0], s.ports[1], world.CallerIP)
	return b.String()
}

// service is a Service with its EndpointSlice.
func (s *stage) service(name string, app int, workload int, ports ...int) string {
	var b, slice strings.Builder
	fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {name: %s, namespace: %s}\nspec:\n  clusterIP: None\n  selector: {app: x}\n  ports:\n", name, world.Namespace)
	for i, p := range ports {
		fmt.Fprintf(&b, "  - {name: http-%d, port: %d, targetPort: %d}\n", i, p, s.apps[app])
		fmt.Fprintf(&slice, "- {name: http-%d, port: %d}\n", i, s.apps[app])
	}
	text := strings.Replace(b.String(), "clusterIP: None", fmt.Sprintf("clusterIP: 10.96.1.%d", len(name)), 1)
	return text + fmt.Sprintf(`---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, namespace: %[2]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
endpoints:
- {addresses: [%[3]s], conditions: {ready: true}, targetRef: {kind: Pod, name: w%[4]d, namespace: %[2]s}}
ports:
%[5]s`, name, world.Namespace, world.VersionIP(workload), workload, slice.String())
}

// front is a service whose requests a VirtualService leads elsewhere; its routes are YAML of spec.http.
func (s *stage) front(name, routes string) string {
	return s.service(name, 0, workloads, s.ports[0]) + fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  hosts: [%[1]s]
  http:
%[3]s`, name, world.Namespace, routes)
}

// call returns a call through the caller's listener for the i-th service port.
func (s *stage) call(i int, host string) harness.Call {
	return harness.HTTPCall(s.client, "http://"+net.JoinHostPort(world.CallerIP, strconv.Itoa(s.ports[i]))+"/", host)
}

// only fails until 20 calls in a row are answered by want.
func only(call harness.Call, want string) func(context.Context) error {
	return func(ctx context.Context) error {
		for range 20 {
			got, err := call(ctx)
			if err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("%s answered, want %s only", got, want)
			}
		}
		return nil
	}
}

// has fails until a line of what the caller tells of its clusters in force begins with the text, or none if none is to.
// An empty text is no question.
func (s *stage) has(text string, there bool) func(context.Context) error {
	return func(ctx context.Context) error {
		if text == "" {
			return nil
		}
		all, err := s.caller.AdminGet(ctx, "/clusters")
		if err == nil && bytes.Contains(append([]byte("\n"), all...), []byte("\n"+text)) != there {
			err = fmt.Errorf("cluster %s: want it there: %v", text, there)
		}
		return err
	}
}

// serviceHost is the full host of a service.
func serviceHost(name string) string { return name + "." + world.Namespace + ".svc.cluster.local" }
