package envoy

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/server"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// oddity is an input that an Envoy might refuse. In its manifest the words NS, HOST and VIP stand for a namespace, a host
// and an address of its own, and PORT for the port that all share.
type oddity struct{ name, manifest string }

// oddHost is a plain service that oddities are about: HTTP on the shared port, and TLS and TCP.
const oddHost = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: plain, namespace: NS}
spec:
  hosts: [HOST]
  addresses: [VIP]
  resolution: STATIC
  ports: [{number: PORT, name: http, protocol: HTTP}, {number: 9443, name: tls, protocol: TLS}, {number: 9090, name: tcp, protocol: TCP}, {number: 9091, name: grpc, protocol: GRPC}]
  endpoints: [{address: 127.0.0.1, ports: {http: APP}}]
`

// oddRules are VirtualServices of plain services; each text is the specification beside the hosts, in YAML's flow style.
func oddRules(texts ...string) []oddity {
	return oddSpecs("VirtualService", "hosts: [HOST], ", texts)
}

// oddRoutes are HTTP routes that lead to their own service unless they say otherwise.
func oddRoutes(texts ...string) []oddity {
	var out []oddity
	for _, text := range texts {
		if !strings.Contains(text, "route:") && !strings.Contains(text, "redirect:") && !strings.Contains(text, "directResponse:") {
			text += ", route: [{destination: {host: HOST}}]"
		}
		out = append(out, oddRules("http: [{"+text+"}]")...)
	}
	return out
}

// oddPolicies are traffic policies of destination rules.
func oddPolicies(texts ...string) []oddity {
	var out []oddity
	for _, text := range texts {
		out = append(out, oddSpecs("DestinationRule", "host: HOST, ", []string{"trafficPolicy: {" + text + "}"})...)
	}
	return out
}

func oddSpecs(kind, head string, texts []string) []oddity {
	var out []oddity
	for _, text := range texts {
		out = append(out, oddity{kind + " " + text, oddHost + "---\napiVersion: networking.istio.io/v1\nkind: " + kind +
			"\nmetadata: {name: odd, namespace: NS}\nspec: {" + head + text + "}\n"})
	}
	return out
}

// oddObjects are objects that stand by themselves, by kind.
func oddObjects(apiVersion, kind string, specs ...string) []oddity {
	var out []oddity
	for _, text := range specs {
		out = append(out, oddity{
			kind + " " + text,
			"apiVersion: " + apiVersion + "\nkind: " + kind + "\nmetadata: {name: odd, namespace: NS}\nspec: {" + text + "}\n",
		})
	}
	return out
}

// oddWorld is a control plane that checks nothing, and one stock Envoy that imports everything.
type oddWorld struct {
	dir       string
	port, app int
	server    *server.Server
	caller    *harness.Envoy
	client    *harness.Client
}

// newOddWorld starts a world with two good services. mesh is more mesh configuration.
func newOddWorld(t *testing.T, mesh string) *oddWorld {
	t.Helper()
	harness.NeedTool(t, harness.EnvoyTool)
	w := &oddWorld{dir: t.TempDir(), port: harness.NewPort(t).Number(), client: harness.NewClient(harness.ClientOptions{NewConnections: true})}
	t.Cleanup(w.client.Close)
	backend := harness.NewHTTPBackend(t, harness.HTTPBackendOptions{Name: "backend", Listen: "127.0.0.1:0"})
	_, text, err := net.SplitHostPort(backend.Address())
	if err != nil {
		t.Fatal(err)
	}
	if w.app, err = strconv.Atoi(text); err != nil {
		t.Fatal(err)
	}
	write(t, w.dir, "caller.yaml", strings.ReplaceAll(oddCaller, "PORT", strconv.Itoa(w.port)))
	w.good(t, "first")
	w.serve(t, mesh)
	w.caller = harness.NewEnvoy(t, harness.EnvoyOptions{
		NodeID:     "sidecar~127.0.0.1~caller.mesh~mesh.svc.cluster.local",
		Metadata:   map[string]any{"NAMESPACE": "mesh", "CLUSTER_ID": "Kubernetes", "NAME": "caller", "LABELS": map[string]any{"app": "caller"}},
		XDSAddress: w.server.GRPC.String(),
		Bootstrap:  harness.NewSecrets(t, harness.NewAuthority(t), "spiffe://cluster.local/ns/mesh/sa/caller").Bootstrap(),
	})
	return w
}

// oddCaller is the caller's own configuration: one listener that really opens, and those for all else.
const oddCaller = `apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: caller, namespace: mesh}
spec:
  egress:
  - {port: {number: PORT, protocol: HTTP, name: http}, bind: 127.0.0.1, captureMode: NONE, hosts: ['*/*']}
  - {hosts: ['*/*']}
`

func (w *oddWorld) serve(t *testing.T, mesh string) {
	t.Helper()
	ports := fmt.Sprintf("proxyListenPort: %d\nproxyInboundListenPort: %d\n", freePort(t), freePort(t))
	w.server = startConfigured(t, w.dir, ports+"enableAutoMtls: false\n"+mesh)
}

// good adds a plain service.
func (w *oddWorld) good(t *testing.T, name string) {
	t.Helper()
	write(t, w.dir, name+".yaml", w.fill(oddHost, name))
}

func (w *oddWorld) fill(text, name string) string {
	sum := 0
	for _, r := range name {
		sum = (sum*31 + int(r)) % 60_000
	}
	words := map[string]string{
		"NS": name, "HOST": name + ".example", "VIP": fmt.Sprintf("10.200.%d.%d", 1+sum/250, 1+sum%250),
		"PORT": strconv.Itoa(w.port), "APP": strconv.Itoa(w.app),
	}
	return regexp.MustCompile(`\b(NS|HOST|VIP|PORT|APP)\b`).ReplaceAllStringFunc(text, func(s string) string { return words[s] })
}

// serves fails until the good service answers.
func (w *oddWorld) serves(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := w.client.Get(ctx, "http://127.0.0.1:"+strconv.Itoa(w.port)+"/", name+".example")
		if err == nil && r.Status != 200 {
			err = fmt.Errorf("%s: status %d: %.100s", name, r.Status, r.Body)
		}
		return err
	}
}

// add writes the oddities, numbered from first on, then a good service, and waits until that serves.
func (w *oddWorld) add(t *testing.T, list []oddity, first int) {
	t.Helper()
	for i, o := range list {
		write(t, w.dir, fmt.Sprintf("o%03d.yaml", first+i), w.fill(o.manifest, fmt.Sprintf("o%03d", first+i)))
	}
	good := fmt.Sprintf("good%d", first)
	w.good(t, good)
	until(t, w.serves(good))
}

// until waits for what must come about, and goes on without it: what was rejected tells why.
func until(t *testing.T, what func(context.Context) error) {
	t.Helper()
	if err := harness.Within(time.Minute, what); err != nil {
		t.Error(err)
	}
}

// settled fails until the Envoy has taken or rejected all clusters, routes and listeners that it was sent. Clusters wait
// 15 s for secrets that nobody has.
func (w *oddWorld) settled(context.Context) error {
	var all []struct {
		ClusterSent   string `json:"cluster_sent"`
		ClusterAcked  string `json:"cluster_acked"`
		ListenerSent  string `json:"listener_sent"`
		ListenerAcked string `json:"listener_acked"`
		RouteSent     string `json:"route_sent"`
		RouteAcked    string `json:"route_acked"`
	}
	text := (&plane{w.server, w.dir}).get("/debug/syncz")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return err
	}
	for _, c := range all {
		if c.ClusterSent != c.ClusterAcked || c.ListenerSent != c.ListenerAcked || c.RouteSent != c.RouteAcked {
			return fmt.Errorf("not yet: %s", text)
		}
	}
	return nil
}

// rejected returns what the Envoy rejected, with what it said.
func (w *oddWorld) rejected(t *testing.T) []string {
	t.Helper()
	var status struct{ Rejected map[string][]held }
	if err := json.Unmarshal([]byte((&plane{w.server, w.dir}).get("/debug/push_status")), &status); err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, list := range status.Rejected {
		for _, h := range list {
			out = append(out, fmt.Sprintf("%s: %.2000s", h.Resource, h.Message))
		}
	}
	metrics, err := w.client.Get(context.Background(), "http://"+w.server.HTTP.String()+"/metrics", "")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(metrics.Body, "\n") {
		if strings.HasPrefix(line, "pilot_total_xds_rejects") {
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

// explain returns the distinct lines of what an Envoy said, with the inputs that they name.
func explain(rejected []string, names map[string]string) string {
	var b strings.Builder
	seen := map[string]bool{}
	for _, r := range rejected {
		for line := range strings.Lines(r) {
			line = strings.TrimSpace(line)
			if len(line) < 25 || seen[line] {
				continue
			}
			seen[line] = true
			fmt.Fprintf(&b, "%.600s\n", line)
			for _, id := range regexp.MustCompile(`\bo\d{3,4}\b`).FindAllString(line, -1) {
				fmt.Fprintf(&b, "    %s is %.300s\n", id, names[id])
			}
		}
	}
	return b.String()
}

// Whatever users write, nothing that we make of it is refused by a stock Envoy.
func TestNoInputIsRejected(t *testing.T) {
	t.Parallel()
	w := newOddWorld(t, "")
	harness.Eventually(t, 30*time.Second, w.serves("first"))
	list := slices.Concat(oddRouteInputs(), oddConnectionInputs(), oddClusterInputs(), oddServiceInputs())
	names := map[string]string{}
	for i, o := range list {
		names[fmt.Sprintf("o%03d", i)] = o.name
	}
	w.add(t, list, 0)
	until(t, w.settled)
	rejected := w.rejected(t)
	if len(rejected) > 0 {
		t.Errorf("Envoy rejected:\n%s", explain(rejected, names))
	}
	if err := w.caller.NoRejections(context.Background()); err != nil && len(rejected) == 0 {
		t.Error(err)
	}
	if n, err := w.caller.Stat(context.Background(), "listener_manager.total_listeners_active"); err != nil || n < 100 {
		t.Errorf("%d listeners are in force, %v", n, err)
	}
	for _, name := range []string{"first", "good0"} {
		if err := w.serves(name)(context.Background()); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d inputs", len(list))
}

// Whatever the mesh configuration holds, a stock Envoy takes all that is made of it, and serves.
func TestNoMeshConfigIsRejected(t *testing.T) {
	t.Parallel()
	for i, mesh := range oddMeshes() {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			w := newOddWorld(t, mesh)
			until(t, w.serves("first"))
			until(t, w.settled)
			if r := w.rejected(t); len(r) > 0 {
				t.Errorf("%s\nEnvoy rejected:\n%s", mesh, explain(r, nil))
			}
			if err := w.caller.NoRejections(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// oddMeshes are mesh configurations.
func oddMeshes() []string {
	return []string{
		"accessLogFile: /dev/null\naccessLogFormat: '%NOSUCH% %REQ( 50%'\n",
		"accessLogFile: /dev/null\naccessLogEncoding: JSON\naccessLogFormat: '{\"a\": \"%NOSUCH%\", \"b\": [\"%\"], \"c\": {\"d\": \"%REQ()%\"}}'\n",
		"accessLogFile: /dev/null\naccessLogEncoding: JSON\naccessLogFormat: 'nosuch'\n",
		`defaultProviders: {accessLogging: [text, json, otel, als], tracing: [zip]}
extensionProviders:
- {name: text, envoyFileAccessLog: {path: /dev/null, logFormat: {text: "%NOSUCH%"}}}
- {name: json, envoyFileAccessLog: {path: /dev/null, logFormat: {labels: {a: "%", b: "%REQ_WITHOUT_QUERY(:path)%"}}}}
- {name: otel, envoyOtelAls: {service: first.example, port: 9091, logFormat: {text: "%REQ(", labels: {a: "%NOSUCH%"}}}}
- {name: als, envoyHttpAls: {service: first.example, port: 9091, additionalRequestHeadersToLog: ["a b", ""]}}
- {name: zip, zipkin: {service: first.example, port: 9091}}
`,
		`outboundClusterStatName: "%NOSUCH%"
`,
	}
}
