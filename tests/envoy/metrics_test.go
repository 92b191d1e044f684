package envoy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/pilot/source/meshconfig"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	planes "github.com/mizzen-mesh/mizzen/tests/plane"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// counted is a mesh of a client and a server, both with stock sidecars and certificates, in which everything is counted.
type counted struct {
	dir            string
	http, tcp      int // the services' ports, on which sidecars listen
	plane          *server.Server
	client, server *harness.Envoy
	backend        *harness.HTTPBackend
	calls          *harness.Client
}

var (
	countedServerIP = world.VersionIP(1)
	bareIP          = world.VersionIP(2) // of a workload without a sidecar
)

func newCounted(t *testing.T, mesh, serverBootstrap string) *counted {
	t.Helper()
	harness.NeedTool(t, harness.EnvoyTool)
	m := &counted{dir: t.TempDir(), calls: harness.NewClient(harness.ClientOptions{NewConnections: true})}
	t.Cleanup(m.calls.Close)
	var apps [2]int
	for i, port := range []*int{&m.http, &m.tcp} {
		p, err := world.NewPorts()
		if err != nil {
			t.Fatal(err)
		}
		*port, apps[i] = p.Service, p.App
	}
	m.backend = harness.NewHTTPBackend(t, harness.HTTPBackendOptions{Listen: net.JoinHostPort(countedServerIP, strconv.Itoa(apps[0])), Behaviour: harness.Behaviour{
		// what only sidecars may say
		Header: http.Header{"X-Mesh-Peer-R": {forgedPeer}},
	}})
	harness.NewTCPEcho(t, "", net.JoinHostPort(countedServerIP, strconv.Itoa(apps[1])))
	harness.NewHTTPBackend(t, harness.HTTPBackendOptions{Listen: net.JoinHostPort(bareIP, strconv.Itoa(m.http)), Behaviour: harness.Behaviour{
		Header: http.Header{"X-Mesh-Peer-R": {forgedPeer}},
	}})
	write(t, m.dir, "base.yaml", m.base(apps))
	m.plane = planes.Start(t, m.dir, func(o *server.Options) {
		parsed, err := meshconfig.Parse([]byte(mesh))
		if err != nil {
			t.Fatal(err)
		}
		o.Mesh = parsed
	})
	t.Cleanup(m.plane.Stop)
	ca := harness.NewAuthority(t)
	m.client = m.sidecar(t, ca, "caller", "v1", world.CallerIP, "")
	m.server = m.sidecar(t, ca, "server", "v2", countedServerIP, serverBootstrap)
	harness.Eventually(t, 30*time.Second, func(ctx context.Context) error { return m.get(ctx) })
	return m
}

func (m *counted) sidecar(t *testing.T, ca *harness.Authority, name, version, ip, extra string) *harness.Envoy {
	t.Helper()
	return harness.NewEnvoy(t, harness.EnvoyOptions{
		NodeID: fmt.Sprintf("sidecar~%s~%s-1.%s~%s.svc.cluster.local", ip, name, world.Namespace, world.Namespace),
		Metadata: map[string]any{
			"NAMESPACE": world.Namespace, "INSTANCE_IPS": ip, "CLUSTER_ID": "Kubernetes", "INTERCEPTION_MODE": "NONE",
			"NAME": name + "-1", "WORKLOAD_NAME": name + "-workload",
			"LABELS": map[string]any{"app": name, "version": version, "service.istio.io/canonical-name": name + "-canonical", "service.istio.io/canonical-revision": version + "-revision"},
		},
		XDSAddress: m.plane.GRPC.String(),
		Bootstrap:  harness.NewSecrets(t, ca, "spiffe://cluster.local/ns/"+world.Namespace+"/sa/"+name).Bootstrap() + extra,
	})
}

func (m *counted) base(apps [2]int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Namespace
metadata: {name: %[1]s}
---
apiVersion: v1
kind: Service
metadata: {name: server, namespace: %[1]s}
spec:
  selector: {app: server}
  clusterIP: 10.96.0.10
  ports: [{name: http, port: %[2]d, targetPort: %[2]d}, {name: tcp, port: %[3]d, targetPort: %[3]d}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: server-1, namespace: %[1]s, labels: {kubernetes.io/service-name: server}}
addressType: IPv4
ports: [{name: http, port: %[2]d}, {name: tcp, port: %[3]d}]
endpoints: [{addresses: [%[4]s], conditions: {ready: true}, targetRef: {kind: Pod, name: server-1, namespace: %[1]s}}]
---
apiVersion: v1
kind: Service
metadata: {name: bare, namespace: %[1]s}
spec: {selector: {app: bare}, clusterIP: 10.96.0.11, ports: [{name: http, port: %[2]d, targetPort: %[2]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: bare-1, namespace: %[1]s, labels: {kubernetes.io/service-name: bare}}
addressType: IPv4
ports: [{name: http, port: %[2]d}]
endpoints: [{addresses: [%[8]s], conditions: {ready: true}, targetRef: {kind: Pod, name: bare-1, namespace: %[1]s}}]
---
apiVersion: v1
kind: Pod
metadata: {name: bare-1, namespace: %[1]s, labels: {app: bare}}
spec: {containers: [{name: app, image: app}]}
status: {phase: Running, podIP: %[8]s, podIPs: [{ip: %[8]s}], conditions: [{type: Ready, status: 'True'}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: caller, namespace: %[1]s}
spec:
  workloadSelector: {labels: {app: caller}}
  egress:
  - {port: {number: %[2]d, protocol: HTTP, name: http}, bind: %[5]s, captureMode: NONE, hosts: ["./*"]}
  - {port: {number: %[3]d, protocol: TCP, name: tcp}, bind: %[5]s, captureMode: NONE, hosts: ["./*"]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: server, namespace: %[1]s}
spec:
  workloadSelector: {labels: {app: server}}
  ingress:
  - {port: {number: %[2]d, protocol: HTTP, name: http}, bind: %[4]s, captureMode: NONE, defaultEndpoint: "0.0.0.0:%[6]d"}
  - {port: {number: %[3]d, protocol: TCP, name: tcp}, bind: %[4]s, captureMode: NONE, defaultEndpoint: "0.0.0.0:%[7]d"}
  egress: [{hosts: ["~/*"]}]
`, world.Namespace, m.http, m.tcp, countedServerIP, world.CallerIP, apps[0], apps[1], bareIP)
	for _, w := range [][3]string{{"caller", "v1", world.CallerIP}, {"server", "v2", countedServerIP}} {
		fmt.Fprintf(&b, `---
apiVersion: v1
kind: Pod
metadata: {name: %[2]s-1, namespace: %[1]s, labels: {app: %[2]s, version: %[3]s, security.istio.io/tlsMode: istio}}
spec: {serviceAccountName: %[2]s, containers: [{name: app, image: app}]}
status: {phase: Running, podIP: %[4]s, podIPs: [{ip: %[4]s}], conditions: [{type: Ready, status: 'True'}]}
`, world.Namespace, w[0], w[1], w[2])
	}
	return b.String()
}

// get sends a request through both sidecars, as an application that forges who it is.
func (m *counted) get(ctx context.Context) error {
	r, err := m.call(ctx, "server", nil)
	if err != nil {
		return err
	}
	if r.Echo.Headers.Get("X-Mesh-Peer") != "" {
		return fmt.Errorf("the server's application saw %q", r.Echo.Headers.Get("X-Mesh-Peer"))
	}
	return untold(r)
}

// call sends a request to a service with more headers.
func (m *counted) call(ctx context.Context, name string, more http.Header) (*harness.Reply, error) {
	header := http.Header{"X-Mesh-Peer": {forgedPeer}, "X-Mesh-Peer-R": {forgedPeer}}
	maps.Copy(header, more)
	return m.calls.Do(ctx, harness.Request{
		URL:  "http://" + net.JoinHostPort(world.CallerIP, strconv.Itoa(m.http)) + "/",
		Host: net.JoinHostPort(serviceHost(name), strconv.Itoa(m.http)), Header: header,
	})
}

const forgedPeer = "forged|forged|forged|forged|forged|forged|forged"

// untold fails if a request failed, or names of peers reached an application.
func untold(r *harness.Reply) error {
	switch {
	case r.Status != http.StatusOK:
		return fmt.Errorf("status %d: %s", r.Status, r.Body)
	case r.Header.Get("X-Mesh-Peer-R") != "":
		return fmt.Errorf("the caller saw %q", r.Header.Get("X-Mesh-Peer-R"))
	}
	return nil
}

// say sends bytes over a connection through both sidecars, and reads them back.
func (m *counted) say(t *testing.T, text string) {
	t.Helper()
	c, err := net.Dial("tcp", net.JoinHostPort(world.CallerIP, strconv.Itoa(m.tcp)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, len(text))); err != nil {
		t.Fatal(err)
	}
}

// series is one line of a scrape.
type series struct {
	name   string
	labels map[string]string
	value  string
}

// scrape returns the standard metrics of a sidecar; prefix is what its Envoy puts before their names.
func scrape(ctx context.Context, e *harness.Envoy, prefix string) ([]series, error) {
	text, err := e.AdminGet(ctx, "/stats/prometheus")
	if err != nil {
		return nil, err
	}
	var out []series
	for line := range strings.Lines(string(text)) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), "{")
		if name, found := strings.CutPrefix(name, prefix); ok && found && strings.HasPrefix(name, "istio_") {
			end := strings.LastIndexByte(rest, '}')
			s := series{name, map[string]string{}, strings.TrimSpace(rest[end+1:])}
			for _, label := range strings.Split(rest[:end], `",`) {
				k, v, _ := strings.Cut(label, `="`)
				s.labels[k] = strings.TrimSuffix(v, `"`)
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// shows waits until a scrape has a series of that name with all the labels ("k=v" by spaces), and returns it.
func shows(t *testing.T, e *harness.Envoy, prefix, name, labels string) series {
	t.Helper()
	var found series
	harness.Eventually(t, 30*time.Second, func(ctx context.Context) error {
		all, err := scrape(ctx, e, prefix)
		if err != nil {
			return err
		}
		var near []string
		for _, s := range all {
			if s.name != name {
				continue
			}
			wrong := s.differs(labels)
			if wrong == "" {
				found = s
				return nil
			}
			near = append(near, wrong)
		}
		return fmt.Errorf("no %s of %d series has %s; differ: %s", name, len(all), labels, strings.Join(near, " OR "))
	})
	return found
}

// differs names the labels that are not as wanted.
func (s series) differs(labels string) string {
	var wrong []string
	for _, pair := range strings.Fields(labels) {
		k, v, _ := strings.Cut(pair, "=")
		got, there := s.labels[k]
		if want := v; got != want || !there {
			wrong = append(wrong, fmt.Sprintf("%s=%q(%v)", k, got, there))
		}
	}
	return strings.Join(wrong, " ")
}

const (
	metricsMesh = "defaultProviders: {metrics: [prometheus]}\naccessLogFile: /dev/null\n"
	plainName   = "envoy_wasmcustom_"

	workloads2 = "source_workload=caller-workload source_workload_namespace=demo source_app=caller source_version=v1 " +
		"source_canonical_service=caller-canonical source_canonical_revision=v1-revision source_cluster=Kubernetes " +
		"destination_workload=server-workload destination_workload_namespace=demo destination_app=server destination_version=v2 " +
		"destination_canonical_service=server-canonical destination_canonical_revision=v2-revision destination_cluster=Kubernetes "
	identities = "source_principal=spiffe://cluster.local/ns/demo/sa/caller destination_principal=spiffe://cluster.local/ns/demo/sa/server "
	service    = "destination_service=server.demo.svc.cluster.local destination_service_name=server destination_service_namespace=demo "
	anHTTP     = "request_protocol=http response_code=200 response_flags=- grpc_response_status= "
)

// A stock Envoy counts what Istio's own counts, with the same labels, on both sides.
func TestStandardMetrics(t *testing.T) {
	t.Parallel()
	m := newCounted(t, metricsMesh, "")
	m.say(t, "hello")
	for _, name := range []string{"istio_requests_total", "istio_request_duration_milliseconds_count", "istio_request_bytes_count", "istio_response_bytes_sum"} {
		shows(t, m.client, plainName, name, "reporter=source connection_security_policy=unknown "+workloads2+identities+service+anHTTP)
		shows(t, m.server, plainName, name, "reporter=destination connection_security_policy=mutual_tls "+workloads2+identities+service+anHTTP)
	}
	const tcp = "request_protocol=tcp response_flags=- "
	const tcpClient = "source_workload=caller-workload destination_workload=server-1 destination_workload_namespace=demo " +
		"destination_canonical_service=server destination_cluster=Kubernetes destination_app=unknown destination_canonical_revision=v2 "
	const tcpServer = "destination_workload=server-workload source_workload=unknown source_workload_namespace=demo "
	for _, name := range []string{"istio_tcp_connections_opened_total", "istio_tcp_connections_closed_total", "istio_tcp_sent_bytes_total", "istio_tcp_received_bytes_total"} {
		a := shows(t, m.client, plainName, name, "reporter=source connection_security_policy=unknown "+tcp+tcpClient+identities+service)
		b := shows(t, m.server, plainName, name, "reporter=destination connection_security_policy=mutual_tls "+tcp+tcpServer+identities+service)
		want := "1"
		if strings.Contains(name, "bytes") {
			want = "5"
		}
		if a.value != want || b.value != want {
			t.Errorf("%s is %s and %s, want %s", name, a.value, b.value, want)
		}
		if _, there := a.labels["response_code"]; there {
			t.Errorf("%s has a response code", name)
		}
	}
	m.others(t)
	m.unforged(t)
}

// others are requests of which less is known: in plaintext, to a workload without a sidecar, to nobody; and one of gRPC.
func (m *counted) others(t *testing.T) {
	t.Helper()
	direct, err := m.calls.Do(context.Background(), harness.Request{
		URL:    "http://" + net.JoinHostPort(countedServerIP, strconv.Itoa(m.http)) + "/",
		Header: http.Header{"X-Mesh-Peer": {forgedPeer}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := untold(direct); err != nil {
		t.Error("in plaintext: ", err)
	}
	if direct.Echo.Headers.Get("X-Mesh-Peer") != "" {
		t.Error("the application saw a forged name")
	}
	for name, header := range map[string]http.Header{"bare": nil, "nobody": nil, "server": {"Content-Type": {"application/grpc"}}} {
		r, err := m.call(context.Background(), name, header)
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Get("X-Mesh-Peer-R") != "" {
			t.Errorf("a response of %s says whose it is", name)
		}
	}
	shows(t, m.client, plainName, "istio_requests_total", "destination_workload=bare-1 destination_workload_namespace=demo destination_app=unknown "+
		"destination_canonical_service=bare destination_canonical_revision=latest destination_cluster=Kubernetes destination_principal=unknown "+
		"source_principal=unknown destination_service_name=bare destination_service=bare.demo.svc.cluster.local response_code=200")
	shows(t, m.client, plainName, "istio_requests_total", "destination_workload=unknown destination_canonical_revision=unknown "+
		"destination_service_name=PassthroughCluster destination_service_namespace=unknown destination_service="+serviceHost("nobody")+":"+strconv.Itoa(m.http)+" response_code=503 source_workload=caller-workload")
	shows(t, m.server, plainName, "istio_requests_total", "request_protocol=grpc response_code=200 grpc_response_status=2 "+workloads2)
	shows(t, m.server, plainName, "istio_requests_total", "source_workload=unknown source_app=unknown source_principal=unknown "+
		"connection_security_policy=none response_code=200 destination_workload=server-workload "+service)
}

// unforged fails the test if a forged name was counted, or an Envoy has refused anything or found it out of date.
func (m *counted) unforged(t *testing.T) {
	t.Helper()
	for _, e := range []*harness.Envoy{m.client, m.server} {
		text, err := e.AdminGet(context.Background(), "/stats/prometheus")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "forged") {
			t.Error("a forged name was counted")
		}
		if err := e.NoRejections(context.Background()); err != nil {
			t.Error(err)
		}
		if lines, err := e.Log("eprecated"); err != nil || len(lines) > 0 {
			t.Error(err, lines)
		}
	}
}
