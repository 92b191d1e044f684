package fault

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
	"github.com/mizzen-mesh/mizzen/pilot/xds"
	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/proxy"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// What the churn is made of. MIZZEN_CHURN is another number of streams.
const (
	churnStreams, churnBatch   = 2000, 50
	churnServices, churnSpaces = 50, 5
	heapSlack, goroutineSlack  = 8 << 20, 3
	returnWithin               = 2 * time.Minute // unused classes are let go every half minute
	churnVariable              = "MIZZEN_CHURN"
)

// fill writes a mesh of many services: with slices, pods, rules that test labels, and scopes, so that there are many
// classes of proxies.
func fill(t *testing.T, dir string) {
	t.Helper()
	for ns := range churnSpaces {
		var b strings.Builder
		fmt.Fprintf(&b, "apiVersion: v1\nkind: Namespace\nmetadata: {name: ns-%d}\n", ns)
		for s := ns; s < churnServices; s += churnSpaces {
			fmt.Fprintf(&b, `---
apiVersion: v1
kind: Service
metadata: {name: svc-%[1]d, namespace: ns-%[2]d}
spec: {selector: {app: svc-%[1]d}, clusterIP: 10.96.1.%[3]d, ports: [{name: http, port: 80, targetPort: 8080}, {name: tcp, port: 9000}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: svc-%[1]d-1, namespace: ns-%[2]d, labels: {kubernetes.io/service-name: svc-%[1]d}}
addressType: IPv4
ports: [{name: http, port: 8080}, {name: tcp, port: 9000}]
endpoints: [{addresses: [10.1.%[2]d.%[3]d], conditions: {ready: true}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: svc-%[1]d, namespace: ns-%[2]d}
spec: {host: svc-%[1]d, subsets: [{name: v1, labels: {version: v1}}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: svc-%[1]d, namespace: ns-%[2]d}
spec: {hosts: [svc-%[1]d], http: [{match: [{sourceLabels: {tier: "%[4]d"}}], timeout: 1s, route: [{destination: {host: svc-%[1]d}}]}, {route: [{destination: {host: svc-%[1]d, subset: v1}}]}]}
`, s, ns, s+2, s%3)
		}
		fmt.Fprintf(&b, `---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: narrow, namespace: ns-%d}
spec: {workloadSelector: {labels: {narrow: "yes"}}, egress: [{hosts: ["./*"]}]}
`, ns)
		if err := world.Write(dir, fmt.Sprintf("ns-%d.yaml", ns), b.String()); err != nil {
			t.Fatal(err)
		}
	}
}

// visitor is one of the many: its node differs from all others, its labels and namespace from most.
func visitor(i int) *corev3.Node {
	labels := map[string]any{"app": fmt.Sprint("svc-", i%churnServices), "tier": fmt.Sprint(i % 4), "pod-template-hash": fmt.Sprint(i)}
	if i%6 == 0 {
		labels["narrow"] = "yes"
	}
	ns := fmt.Sprint("ns-", i%(churnSpaces+1)) // one that nobody knows
	md, err := structpb.NewStruct(map[string]any{
		"NAMESPACE": ns, "CLUSTER_ID": "Kubernetes", "ISTIO_VERSION": fmt.Sprintf("1.%d.%d", 20+i%13, i%50), "LABELS": labels,
		"SERVICE_ACCOUNT": fmt.Sprint("sa-", i%7), "NAME": fmt.Sprint("visitor-", i),
	})
	if err != nil {
		panic(err) // the table above is wrong
	}
	n := &corev3.Node{Id: fmt.Sprintf("sidecar~10.%d.%d.%d~visitor-%d.%s~%s.svc.cluster.local", 20+i/62500, i/250%250, i%250+1, i, ns, ns), Metadata: md}
	if i%3 == 0 {
		n.Extensions = []*corev3.Extension{{Name: "envoy.filters.http.router"}}
	}
	return n
}

// TestChurn: thousands of streams of all kinds come and go, and goroutines, heap and classes are what they were.
func TestChurn(t *testing.T) {
	t.Parallel()
	streams := churnStreams
	if v := os.Getenv(churnVariable); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil {
			t.Fatal(err)
		}
		streams = n
	}
	dir := t.TempDir()
	fill(t, dir)
	p := startProcess(t, dir)
	before, err := p.collected(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := &churn{T: t, addr: p.xds, rng: rand.New(rand.NewPCG(1, 2)), ends: map[string]int{}}
	began := time.Now()
	peak := metrics{}
	for first := 0; first < streams; first += churnBatch {
		c.batch(first, min(churnBatch, streams-first), func() {
			if now, err := p.get(t.Context(), "/metrics"); err == nil {
				if m, err := parseMetrics(now); err == nil && m.sum("mizzen_engine_classes") > peak.sum("mizzen_engine_classes") {
					peak = m
				}
			}
		})
	}
	t.Logf("%d streams in %v: %v", streams, time.Since(began).Round(time.Millisecond), c.ends)
	var after metrics
	harness.Eventually(t, returnWithin, func(ctx context.Context) error {
		var err error
		if after, err = p.collected(ctx); err != nil {
			return err
		}
		return returned(before, after)
	})
	for _, m := range []string{"go_goroutines", "go_memstats_heap_alloc_bytes", "mizzen_engine_classes", "mizzen_engine_cells", "pilot_xds"} {
		t.Logf("%s: %.0f before, %.0f at the peak of classes, %.0f after", m, before.sum(m), peak.sum(m), after.sum(m))
	}
	if peak.sum("mizzen_engine_classes") == 0 {
		t.Error("there never was a class")
	}
	if after.sum("pilot_total_xds_rejects") == 0 {
		t.Error("no rejection was counted")
	}
	if n := after.sum("mizzen_xds_stream_panics_total"); n > 0 {
		t.Errorf("%.0f streams panicked", n)
	}
}

// returned tells what has not come back to what it was.
func returned(before, after metrics) error {
	for _, m := range []string{"mizzen_engine_clients", "mizzen_engine_classes", "mizzen_engine_cells", "mizzen_engine_rows", "mizzen_engine_resources", "pilot_xds"} {
		if a, b := after.sum(m), before.sum(m); a != b {
			return fmt.Errorf("%s is %.0f, was %.0f", m, a, b)
		}
	}
	if a, b := after.sum("go_goroutines"), before.sum("go_goroutines"); a > b+goroutineSlack {
		return fmt.Errorf("%.0f goroutines, were %.0f", a, b)
	}
	if a, b := after.sum("go_memstats_heap_alloc_bytes"), before.sum("go_memstats_heap_alloc_bytes"); a > b+heapSlack {
		return fmt.Errorf("the heap holds %.1f MB, held %.1f", a/1e6, b/1e6)
	}
	for _, m := range []string{"pilot_xds", "pilot_xds_lds_reject"} {
		if a, b := after.series(m), before.series(m); a > b {
			return fmt.Errorf("%s has %d series of proxies that are gone", m, a-b)
		}
	}
	return nil
}

// churn makes streams come and go.
type churn struct {
	*testing.T
	addr string
	rng  *rand.Rand

	mu   sync.Mutex // guards the rest
	ends map[string]int
}

// batch opens n streams, waits until those that read have everything, calls full, and ends them all.
func (c *churn) batch(first, n int, full func()) {
	c.Helper()
	var visits []*visit
	for i := first; i < first+n; i++ {
		v := &visit{churn: c, number: i, how: []string{"close", "cancel", "cut", "silent", "silent cut", "reject"}[c.rng.IntN(6)], delta: i%2 == 0}
		visits = append(visits, v)
	}
	c.each(visits, (*visit).arrive)
	full()
	c.each(visits, (*visit).leave)
}

func (c *churn) each(visits []*visit, f func(*visit) error) {
	c.Helper()
	var wg sync.WaitGroup
	for _, v := range visits {
		wg.Go(func() {
			if err := f(v); err != nil {
				c.Errorf("stream %d (%s, delta %v): %v", v.number, v.how, v.delta, err)
			}
		})
	}
	wg.Wait()
}

// visit is one stream. How it ends: "close" says that no more requests come, "reject" rejects the last clusters and then
// does the same, "cancel" resets the stream, "cut" breaks the connection; silent ones never read.
type visit struct {
	*churn
	number int
	how    string
	delta  bool

	raw    net.Conn
	conn   *grpc.ClientConn
	stream *proxy.Stream
	cancel context.CancelFunc
}

func (v *visit) arrive() error {
	ctx, cancel := context.WithCancel(context.Background())
	v.cancel = cancel
	var err error
	v.conn, err = proxy.Dial(v.addr, grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		v.raw = c
		return c, err
	}))
	if err != nil {
		return err
	}
	if strings.HasPrefix(v.how, "silent") {
		return proxy.Silent(ctx, v.conn, v.delta, silence(v.number))
	}
	if v.stream, err = proxy.Open(ctx, v.conn, proxy.New(proxy.Options{Node: visitor(v.number), Delta: v.delta})); err != nil {
		return err
	}
	within, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	return harness.Poll(within, func(context.Context) error { return v.stream.Look(settled) })
}

// silence is what a client that never reads asks for: everything.
func silence(number int) []*xds.Request {
	out := []*xds.Request{{TypeURL: translate.ClusterType, Node: visitor(number)}, {TypeURL: translate.ListenerType}, {TypeURL: translate.NameTableType}}
	for s := range churnServices {
		name := fmt.Sprintf("outbound|80||svc-%d.ns-%d.svc.cluster.local", s, s%churnSpaces)
		out = append(out, &xds.Request{TypeURL: translate.EndpointType, Subscribe: []string{name}, Names: []string{name}})
	}
	return append(out, &xds.Request{TypeURL: translate.RouteType, Subscribe: []string{"80"}, Names: []string{"80"}})
}

// settled tells whether a proxy has something of each type and waits for nothing.
func settled(p *proxy.Proxy) error {
	for _, url := range []string{translate.ClusterType, translate.ListenerType, translate.RouteType} {
		if len(p.Held(url)) < len(p.Names(url)) || len(p.Held(url)) == 0 {
			return fmt.Errorf("%s is not complete", url)
		}
	}
	if cold := p.Cold(); len(cold) > 0 {
		return fmt.Errorf("no endpoints for %v", cold)
	}
	return nil
}

func (v *visit) leave() error {
	defer v.cancel()
	switch v.how {
	case "reject":
		no := &xds.Request{
			TypeURL: translate.ListenerType, Nonce: v.stream.Nonce(translate.ListenerType), Error: &rpcstatus.Status{Code: 13, Message: "as the test wants"},
		}
		if err := v.stream.Say(no); err != nil {
			return err
		}
		fallthrough
	case "close":
		if err := v.stream.Close(); err != nil {
			return err
		}
		<-v.stream.Done()
		if err := v.stream.Err(); err != io.EOF { //nolint:errorlint // exactly this says that the server ended it in order
			return fmt.Errorf("ended by %w", err)
		}
	case "cut", "silent cut":
		if c, ok := v.raw.(*net.TCPConn); ok {
			_ = c.SetLinger(0) // a reset in place of an orderly end
		}
		_ = v.raw.Close()
	case "cancel", "silent":
		v.cancel()
	}
	v.mu.Lock()
	v.ends[v.how]++
	v.mu.Unlock()
	return v.conn.Close()
}
