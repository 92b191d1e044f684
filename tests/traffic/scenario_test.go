package traffic

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// patience is how long anything may take on a loaded machine.
const patience = 30 * time.Second

// scenario is a piece of configuration and what must come of requests. In its texts ${NAME} stands for a value of the
// mesh (http is the services' port, a workload's name its address), for the port of a backend or an extra listener,
// for a variable, or for the scenario's own host.
type scenario struct {
	name      string // its host is NAME.example
	backends  []backend
	listeners string // further egress listeners of a Sidecar, on ports that are named in ports
	ports     []string
	on        string // the workload of that Sidecar; empty means the caller
	ingress   string // further ingress listeners of the workload limited
	// start makes what else it needs, and adds ports and variables.
	start     func(t *testing.T, r *run)
	providers string // of the mesh configuration
	objects   string
	exchanges []exchange
	// beyond says why walks cannot tell what comes of its requests; empty means that all are compared with walks.
	beyond string
	// connections says that it makes no requests but TCP connections, which are not walked.
	connections bool
	// then checks what a table cannot say, after the exchanges.
	then func(t *testing.T, r *run)
}

// backend is an application without a sidecar, on a port of its own.
type backend struct {
	name   string
	behave harness.Behaviour
}

// called are backends that answer well.
func called(names ...string) []backend {
	out := make([]backend, len(names))
	for i, n := range names {
		out[i].name = n
	}
	return out
}

// headers are header fields; in an expectation "" says that there must be none.
type headers map[string]string

// exchange is a request and its expected outcome. What is left out is not looked at, but for status.
type exchange struct {
	from               string // the workload whose application asks; empty means the caller
	port               string // the name of that where it asks; empty means the services'
	method, host, path string // empty means GET, the scenario's host, /
	headers            headers
	fresh              bool   // on a connection of its own
	status             int    // 0 means 200
	backend            string // that answered
	seen               headers
	answer             headers
	body               string // part of it
	seenPath, seenHost string // as the application saw them
	seenProto          string
	atLeast            time.Duration // it took
	beyond             string        // why a walk cannot tell what comes of it; empty means that it is compared
}

// run is a scenario in the mesh.
type run struct {
	*scenario
	mesh     *mesh
	backends map[string]*harness.HTTPBackend
	vars     map[string]string
	changed  bool // its objects are not those that the mesh began with
}

// prepare starts what the scenario needs besides the mesh.
func prepare(t *testing.T, m *mesh, s *scenario) *run {
	t.Helper()
	r := &run{scenario: s, mesh: m, backends: map[string]*harness.HTTPBackend{}, vars: map[string]string{"name": s.name, "host": s.name + ".example"}}
	for _, b := range s.backends {
		r.backend(t, harness.HTTPBackendOptions{Name: b.name, Behaviour: b.behave})
	}
	for _, p := range s.ports {
		r.vars[p] = strconv.Itoa(harness.NewPort(t).Number())
	}
	if s.start != nil {
		s.start(t, r)
	}
	return r
}

// backend starts one more backend, whose port is known by its name.
func (r *run) backend(t *testing.T, o harness.HTTPBackendOptions) {
	t.Helper()
	b := harness.NewHTTPBackend(t, o)
	r.backends[o.Name], r.vars[o.Name] = b, strconv.Itoa(b.Port())
}

// expand fills in what only a running mesh knows.
func (r *run) expand(t *testing.T, text string) string {
	t.Helper()
	return os.Expand(text, func(name string) string {
		if v, ok := r.vars[name]; ok {
			return v
		}
		if name == "$" { // written $$
			return name
		}
		v, ok := r.mesh.vars[name]
		if !ok {
			t.Fatalf("%s: nothing is called %s", r.name, name)
		}
		return v
	})
}

// write replaces the scenario's objects.
func (r *run) write(t *testing.T, objects string) {
	t.Helper()
	r.changed = r.mesh.oracle != nil
	r.mesh.write(t, r.name+".yaml", r.expand(t, objects))
}

// do sends the request of an exchange. It is an error if what comes of it is not what walks say.
func (r *run) do(ctx context.Context, x exchange) (*harness.Reply, error) {
	h := http.Header{}
	for k, v := range x.headers {
		h.Set(k, v)
	}
	port := r.mesh.vars["http"]
	if x.port != "" {
		port = r.vars[x.port]
	}
	client := r.mesh.client
	if x.fresh {
		client = r.mesh.fresh
	}
	reply, err := client.Do(ctx, harness.Request{
		Method: x.method, URL: "http://" + net.JoinHostPort(r.mesh.addressOf(x.from), port) + "/" + strings.TrimPrefix(x.path, "/"),
		Host: cmp.Or(x.host, r.vars["host"]), Header: h,
	})
	if err != nil {
		return nil, err
	}
	return reply, r.agree(x, reply)
}

// check sends the request of an exchange and says what is not as expected.
func (r *run) check(ctx context.Context, x exchange) error {
	reply, err := r.do(ctx, x)
	if err != nil {
		return err
	}
	if wrong := x.compare(reply); len(wrong) > 0 {
		return fmt.Errorf("%s %s%s %v: %s; the answer is %d %v %.300s", x.method, x.host, x.path, x.headers,
			strings.Join(wrong, ", "), reply.Status, reply.Header, reply.Body)
	}
	return nil
}

// compare lists what is not as expected.
func (x exchange) compare(reply *harness.Reply) (wrong []string) {
	differ := func(what string, got, want any) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", what, got, want))
		}
	}
	given := func(what, got, want string) {
		if want != "" {
			differ(what, got, want)
		}
	}
	differ("the status", reply.Status, cmp.Or(x.status, http.StatusOK))
	given("the backend", reply.Echo.Backend, x.backend)
	given("the path seen", reply.Echo.Path, x.seenPath)
	given("the host seen", reply.Echo.Host, x.seenHost)
	given("the protocol seen", reply.Echo.Proto, x.seenProto)
	for k, v := range x.seen {
		differ("the header "+k+" seen", strings.Join(reply.Echo.Headers.Values(k), ","), v)
	}
	for k, v := range x.answer {
		differ("the header "+k, strings.Join(reply.Header.Values(k), ","), v)
	}
	if !strings.Contains(reply.Body, x.body) {
		wrong = append(wrong, "the body lacks "+x.body)
	}
	if reply.Took < x.atLeast {
		wrong = append(wrong, fmt.Sprintf("it took %v", reply.Took))
	}
	return wrong
}

// count sends a request n times and counts the answers by backend, those not of a backend by status.
func (r *run) count(t *testing.T, n int, x exchange) map[string]int {
	t.Helper()
	out := map[string]int{}
	for range n {
		reply, err := r.do(t.Context(), x)
		if err != nil {
			t.Fatal(err)
		}
		name := reply.Echo.Backend
		if reply.Status != http.StatusOK {
			name = strconv.Itoa(reply.Status)
		}
		out[name]++
	}
	return out
}

// eventually waits until an exchange goes as expected n times in a row.
func (r *run) eventually(t *testing.T, n int, x exchange) {
	t.Helper()
	harness.Eventually(t, patience, func(ctx context.Context) error {
		for range n {
			if err := r.check(ctx, x); err != nil {
				return err
			}
		}
		return nil
	})
}

// test makes the exchanges.
func (r *run) test(t *testing.T) {
	t.Parallel()
	for i, x := range r.exchanges {
		if err := r.check(t.Context(), x); err != nil {
			t.Errorf("exchange %d: %v", i, err)
		}
	}
	if r.then != nil {
		r.then(t, r)
	}
}

// stat returns a counter of the caller about a subset of the scenario's host; "" is the whole.
func (r *run) stat(t *testing.T, subset, name string) int {
	t.Helper()
	n, err := r.mesh.envoys[caller].Stat(t.Context(), fmt.Sprintf("cluster.outbound|%s|%s|%s;.%s", r.mesh.vars["http"], subset, r.vars["host"], name))
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// between fails the test unless a count lies in a range.
func between(t *testing.T, what string, got, low, high int) {
	t.Helper()
	if got < low || got > high {
		t.Errorf("%s: %d, want %d to %d", what, got, low, high)
	}
}
