package traffic

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/mizzen-mesh/mizzen/pilot/model"
	"github.com/mizzen-mesh/mizzen/pilot/offline"
	"github.com/mizzen-mesh/mizzen/pilot/simulate"
	"github.com/mizzen-mesh/mizzen/tests/harness"
)

// oracle says by walks what comes of requests to the mesh. It knows the objects that the mesh began with.
type oracle struct {
	proxies map[string]*simulate.Resources // by workload

	mu       sync.Mutex
	compared map[string]int            // requests by scenario
	beyond   map[string]map[string]int // requests that walks say nothing of, by reason and scenario
}

// newOracle reads the mesh's directory and asks for what the Envoys of its workloads get.
func newOracle(t *testing.T, m *mesh, settings *model.Settings, config *model.Mesh) *oracle {
	t.Helper()
	in, err := offline.Read(t.Context(), offline.Files{Dir: m.dir})
	if err != nil {
		t.Fatal(err)
	}
	p, err := offline.Start(settings, config, in.Objects)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	o := &oracle{proxies: map[string]*simulate.Resources{}, compared: map[string]int{}, beyond: map[string]map[string]int{}}
	for _, w := range workloads() {
		meta, err := structpb.NewStruct(w.metadata())
		if err != nil {
			t.Fatal(err)
		}
		n := offline.Stock(&corev3.Node{Id: w.node(), Metadata: meta, Locality: &corev3.Locality{Region: "west", Zone: "west-1"}})
		got, err := p.Ask(n, p.SubscriptionOf(n, nil))
		if err != nil {
			t.Fatal(err)
		}
		o.proxies[w.name] = got.Walkable()
	}
	return o
}

// report fails the test if a scenario's requests were neither compared nor declared, and logs the counts.
func (o *oracle) report(t *testing.T, runs []*run) {
	t.Helper()
	total := 0
	for _, r := range runs {
		total += o.compared[r.name]
		declared := 0
		for _, by := range o.beyond {
			declared += by[r.name]
		}
		if o.compared[r.name]+declared == 0 && !r.connections {
			t.Errorf("%s: no request was compared with a walk", r.name)
		}
	}
	t.Logf("%d requests of %d scenarios were compared with walks", total, len(o.compared))
	for reason, by := range o.beyond {
		n := 0
		for _, c := range by {
			n += c
		}
		t.Logf("%d requests of %d scenarios are beyond walks: %s", n, len(by), reason)
	}
}

// agree compares what came of a request with its walk.
func (r *run) agree(x exchange, reply *harness.Reply) error {
	o := r.mesh.oracle
	reason := cmp.Or(x.beyond, r.beyond)
	if r.changed {
		reason = cmp.Or(reason, "the scenario changes its objects")
	}
	o.mu.Lock()
	if reason != "" {
		if o.beyond[reason] == nil {
			o.beyond[reason] = map[string]int{}
		}
		o.beyond[reason][r.name]++
	} else {
		o.compared[r.name]++
	}
	o.mu.Unlock()
	if reason != "" {
		return nil
	}
	to, err := netip.ParseAddrPort(r.mesh.addressOf(x.from) + ":" + cmp.Or(r.vars[x.port], r.mesh.vars["http"]))
	if err != nil {
		return err
	}
	q := simulate.Request{
		Source: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), 0), Destination: to, Method: x.method,
		Host: cmp.Or(x.host, r.vars["host"]), Path: "/" + strings.TrimPrefix(x.path, "/"), Headers: map[string]string{}, Claims: claimsOf(x),
	}
	for k, v := range x.headers {
		q.Headers[strings.ToLower(k)] = v
	}
	ends := r.ends(cmp.Or(x.from, caller), q)
	if !slices.ContainsFunc(ends, func(e end) bool { return e.is(x, reply) }) {
		return fmt.Errorf("envoy answers %d by %q at %s%s to %s, the walk ends in one of %+v", reply.Status, reply.Echo.Backend, reply.Echo.Host, reply.Echo.Path,
			reply.Header.Get("Location"), ends)
	}
	return nil
}

// end is how a request may end: with a proxy's answer, or at an application.
type end struct {
	status              int
	location            string
	backend, host, path string
	why                 string
}

func (e end) is(x exchange, reply *harness.Reply) bool {
	switch {
	case e.status != 0:
		return reply.Status == e.status && reply.Echo.Backend == "" && e.location == reply.Header.Get("Location")
	case x.method == http.MethodHead:
		return reply.Status == http.StatusOK // who answers is in the body
	}
	return reply.Echo.Backend == e.backend && reply.Echo.Host == e.host && reply.Echo.Path == e.path
}

// ends walks a request through a workload's proxy and those that it leads to.
func (r *run) ends(workload string, q simulate.Request) []end {
	o := simulate.Walk(r.mesh.oracle.proxies[workload], q).Outcome
	switch o.Kind {
	case simulate.Answered, simulate.Denied:
		return []end{{status: o.Status, location: o.Location, why: workload + ": " + o.String()}}
	case simulate.Reset:
		return []end{{status: http.StatusServiceUnavailable, why: workload + ": " + o.String()}} // what the one before makes of it
	}
	var out []end
	for _, d := range o.Destinations {
		if d.Weight <= 0 {
			continue
		}
		if d.Problem != "" {
			out = append(out, end{status: http.StatusServiceUnavailable, why: d.Cluster + ": " + d.Problem})
			continue
		}
		for _, e := range d.Endpoints {
			if e.Share > 0 {
				out = append(out, r.arrive(e.Address, o.Request)...)
			}
		}
	}
	return out
}

// arrive follows a request to an endpoint.
func (r *run) arrive(address string, q simulate.Request) []end {
	for _, w := range workloads() {
		if address == w.address+":"+r.mesh.vars["http"] {
			q.Inbound, q.Destination = true, netip.MustParseAddrPort(address)
			return r.ends(w.name, q)
		}
	}
	e := end{host: q.Host, path: q.Path, backend: "nobody known at " + address}
	address = strings.Replace(address, "localhost", "127.0.0.1", 1)
	for name, b := range r.backends {
		if b.Address() == address {
			e.backend = name
		}
	}
	for name, b := range r.mesh.apps {
		if "127.0.0.1:"+strconv.Itoa(b.Port()) == address {
			e.backend = name
		}
	}
	return []end{e}
}

// claimsOf returns what a request's token says, nil without one that can be read.
func claimsOf(x exchange) map[string]any {
	token := strings.TrimPrefix(x.headers["authorization"], "Bearer ")
	token = cmp.Or(token, strings.TrimPrefix(x.headers["x-token"], "Token "))
	if u, err := url.Parse(x.path); err == nil {
		token = cmp.Or(token, u.Query().Get("token"))
	}
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil
	}
	var out map[string]any
	if json.Unmarshal(text, &out) != nil {
		return nil
	}
	return out
}
