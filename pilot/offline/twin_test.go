package offline

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/pilot/simulate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// twins are a real Envoy and the resources that it was given.
type twins struct {
	resources *simulate.Resources
	inbound   bool
	port      int
	ends      map[string]int // how many walks end in which way
	client    *harness.Client
	backends  map[string]string // name by address
}

// startTwins starts the Envoy of a workload, which has nobody to give it certificates.
func startTwins(t *testing.T, p *Plane, app string, port int, backends map[string]string) *twins {
	t.Helper()
	node := strings.NewReplacer("client", app, "REDIRECT", "NONE", "10.1.0.1", "127.0.0.1", "security.istio.io/tlsMode", "unused").Replace(string(nodeFile(t, "client.json")))
	n, err := ReadNode([]byte(node))
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.Ask(Stock(n), p.SubscriptionOf(n, nil))
	if err != nil {
		t.Fatal(err)
	}
	text, err := got.BootstrapJSON(n)
	if err != nil {
		t.Fatal(err)
	}
	startStatic(t, text)
	client := harness.NewClient(harness.ClientOptions{})
	t.Cleanup(client.Close)
	return &twins{resources: got.Walkable(), inbound: app == "server", port: port, ends: map[string]int{}, client: client, backends: backends}
}

// compare sends a request to the Envoy and walks it, and tells how they differ.
func (w *twins) compare(ctx context.Context, method, host, path string, headers map[string]string) error {
	real := harness.Request{Method: method, URL: fmt.Sprintf("http://127.0.0.1:%d%s", w.port, path), Host: host, Header: http.Header{}}
	for k, v := range headers {
		real.Header.Set(k, v)
	}
	reply, err := w.client.Do(ctx, real)
	if err != nil {
		return err
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(w.port)) //nolint:gosec // a port
	o := simulate.Walk(w.resources, simulate.Request{
		Source: netip.AddrPortFrom(to.Addr(), 1), Destination: to, Inbound: w.inbound, Method: method, Host: host, Path: path, Headers: headers,
	}).Outcome
	w.ends[fmt.Sprintf("%s %d", o.Kind, o.Status)]++
	if o.Kind != simulate.Forwarded {
		if reply.Status != o.Status || reply.Echo.Backend != "" || o.Location != reply.Header.Get("Location") {
			return fmt.Errorf("envoy answers %d %s%s, the walk ends: %s", reply.Status, reply.Echo.Backend, reply.Header.Get("Location"), o)
		}
		return nil
	}
	var names []string
	for _, a := range o.Reached() {
		names = append(names, w.backends[a])
	}
	switch {
	case !slices.Contains(names, reply.Echo.Backend):
		return fmt.Errorf("envoy answers %d by %q, the walk leads to %v", reply.Status, reply.Echo.Backend, names)
	case reply.Echo.Path != o.Request.Path || reply.Echo.Host != o.Request.Host:
		return fmt.Errorf("the backend sees %s%s, the walk says %s%s", reply.Echo.Host, reply.Echo.Path, o.Request.Host, o.Request.Path)
	case reply.Echo.Headers.Get("x-set") != o.Request.Headers["x-set"] || reply.Echo.Headers.Get("x-b") != o.Request.Headers["x-b"]:
		return fmt.Errorf("the backend sees the headers %v, the walk says %v", reply.Echo.Headers, o.Request.Headers)
	}
	return nil
}

// Whatever is asked of a real Envoy, the walk through its resources says what it does.
func TestWalksAgreeWithEnvoy(t *testing.T) {
	t.Parallel()
	v1, v2 := harness.NewHTTPBackend(t, harness.HTTPBackendOptions{Name: "v1"}), harness.NewHTTPBackend(t, harness.HTTPBackendOptions{Name: "v2"})
	out, in := harness.NewPort(t), harness.NewPort(t)
	text, err := os.ReadFile(filepath.Join("testdata", "twin.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifests := strings.NewReplacer(
		"$V1", strconv.Itoa(v1.Port()), "$V2", strconv.Itoa(v2.Port()), "$OUT", strconv.Itoa(out.Number()), "$IN", strconv.Itoa(in.Number()),
	).Replace(string(text))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "all.yaml"), []byte(manifests), 0o600); err != nil {
		t.Fatal(err)
	}
	p, input := startAt(t, dir)
	if len(input.Problems) > 0 {
		t.Fatal(input.Problems)
	}
	backends := map[string]string{v1.Address(): "v1", v2.Address(): "v2"}
	for app, port := range map[string]int{"client": out.Number(), "server": in.Number()} {
		w := startTwins(t, p, app, port, backends)
		harness.Eventually(t, 20*time.Second, func(ctx context.Context) error {
			_, err := w.client.Get(ctx, fmt.Sprintf("http://127.0.0.1:%d/", port), "web.example.com")
			return err
		})
		w.compareAll(t, app)
	}
}

// compareAll compares every combination of what requests may have.
func (w *twins) compareAll(t *testing.T, app string) {
	t.Helper()
	count, differ := 0, 0
	for _, host := range []string{"web.example.com", fmt.Sprintf("web.example.com:%d", w.port), "WEB.Example.com", "a.wild.example.com", "wild.example.com", "bad.example.com"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			for _, path := range []string{
				"/", "/without", "/absent", "/norex", "/exact", "/exact/", "/exact?x=1", "/exact2", "//exact", "/x/../exact", "/re/abc", "/re/ab1", "/re/ab/c", "/q?q=1", "/q?q=12",
				"/q?r=abc", "/q?r=abd&q=1", "/m/x", "/redirect/x?y=1", "/tls/x?y=1", "/old/x?y=1", "/user/jo/cart", "/user/jo/cart?a=b", "/user/jo", "/cASE", "/direct", "/abort/x",
				"/nobody", "/split", "/headers/item", "/%65xact",
			} {
				for _, headers := range []map[string]string{
					{}, {"x-a": "1"}, {"x-a": "12"}, {"x-b": "2"}, {"x-b": "3"}, {"x-c": "v1"}, {"x-c": "v1a"}, {"x-c": "alto"}, {"x-d": "prefix"},
				} {
					count++
					if err := w.compare(t.Context(), method, host, path, headers); err != nil {
						differ++
						if differ <= 20 {
							t.Errorf("%s: %s %s%s %v: %v", app, method, host, path, headers, err)
						}
					}
				}
			}
		}
	}
	t.Logf("%s: %d requests, %d differ: %v", app, count, differ, w.ends)
}
