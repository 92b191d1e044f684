package xds

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"pgregory.net/rapid"

	"github.com/mizzen-mesh/mizzen/pilot/translate"
)

// vhostClient takes virtual hosts as Envoy does: it ignores those of routes it does not hold, forgets them with the
// route, and yet goes on to say that it holds them.
type vhostClient struct {
	t       *rapid.T
	world   *fakeWorld
	session *Session
	now     time.Time
	timing  Timing

	clusters  map[string]string
	routes    map[string]map[string]string // in force, with their virtual hosts' contents
	wanted    map[string]bool              // routes subscribed to
	young     map[string]bool              // routes whose virtual hosts have not come yet
	said      map[string]map[string]string // type, name, version: what it would claim
	asked     map[string]bool
	nonce     map[string]string
	unacked   map[string]*rpcstatus.Status
	exclusive bool // two virtual hosts of a route with one domain are an error
}

var vhostTypes = []string{"cds", "rds", "vhds"}

func newVhostClient(t *rapid.T, exclusive bool) *vhostClient {
	timing := DefaultTiming()
	timing.Ack, timing.ClusterAck = 1000*time.Hour, 1000*time.Hour
	if exclusive {
		timing.ClusterWait = 1000 * time.Hour
	}
	return &vhostClient{
		t: t, world: newFakeWorld(), now: epoch, timing: timing, exclusive: exclusive,
		clusters: map[string]string{}, routes: map[string]map[string]string{}, wanted: map[string]bool{}, young: map[string]bool{},
		said: map[string]map[string]string{"cds": {}, "rds": {}, "vhds": {}}, asked: map[string]bool{},
	}
}

// connect begins a stream with what the client has.
func (c *vhostClient) connect() {
	before := c.asked
	c.world.demand, c.world.uses = map[string]Names{}, map[string]bool{}
	c.session = newTestSession(true, c.world, c.timing)
	c.asked, c.nonce, c.unacked = map[string]bool{}, map[string]string{}, map[string]*rpcstatus.Status{}
	c.session.Publish(c.now, c.world.current())
	for _, typ := range vhostTypes {
		if typ == "cds" || before[typ] {
			c.begin(typ)
		}
	}
}

func (c *vhostClient) begin(typ string) {
	r := &Request{TypeURL: fakeTypes[typ], Initial: maps.Clone(c.said[typ])}
	if typ == "rds" {
		r.Subscribe = slices.Sorted(maps.Keys(c.wanted))
		if len(r.Subscribe) == 0 {
			return
		}
	}
	c.asked[typ] = true
	c.request(r)
}

func (c *vhostClient) request(r *Request) {
	typ := shortType(r.TypeURL)
	c.t.Logf("%s: request nonce %q subscribe %v unsubscribe %v initial %v error %v", typ, r.Nonce, r.Subscribe, r.Unsubscribe, r.Initial, r.Error != nil)
	c.world.apply(c.session.Request(c.now, r))
}

// toggle subscribes to a route or takes that back, and again does both within one request.
func (c *vhostClient) toggle(route string, again bool) {
	r := &Request{TypeURL: translate.RouteType, Subscribe: []string{route}}
	had := c.wanted[route]
	if had {
		delete(c.wanted, route)
		delete(c.routes, route)
		delete(c.young, route)
		delete(c.said["rds"], route)
	}
	if had && !again {
		r.Subscribe, r.Unsubscribe = nil, r.Subscribe
	} else {
		c.wanted[route] = true
	}
	if !c.asked["rds"] {
		c.begin("rds")
		return
	}
	c.request(r)
}

// receive takes every response there is.
func (c *vhostClient) receive() (n int) {
	for {
		r, _ := c.session.Next(c.now)
		if r == nil {
			return n
		}
		n++
		m := decode(c.t, true, r)
		typ := shortType(m.typeURL)
		c.t.Logf("%s: response %s %v removed %v", typ, m.nonce, m.resources, m.removed)
		if _, waiting := c.unacked[typ]; waiting {
			c.t.Fatalf("%s: a second response is in flight", typ)
		}
		c.nonce[typ] = m.nonce
		if c.unacked[typ] = c.take(typ, m); c.unacked[typ] != nil {
			continue // what Envoy says it holds is what it has acknowledged last, removals too
		}
		maps.Copy(c.said[typ], m.versions)
		for _, name := range m.removed {
			delete(c.said[typ], name)
		}
	}
}

// take applies a response, all or nothing of it, and returns the error of its NACK.
func (c *vhostClient) take(typ string, m wireResponse) *rpcstatus.Status {
	for _, content := range m.resources {
		if bad(content) {
			return &rpcstatus.Status{Code: 13, Message: "no"}
		}
	}
	for name, content := range m.resources {
		switch hosts := c.routes[routeOf(name)]; {
		case typ == "cds":
			c.clusters[name] = content
		case typ == "rds" && c.wanted[name] && c.routes[name] == nil:
			c.routes[name], c.young[name] = map[string]string{}, true
		case typ == "vhds" && hosts != nil:
			hosts[name] = content
			delete(c.young, routeOf(name))
		}
	}
	for _, name := range m.removed {
		if typ == "cds" {
			delete(c.clusters, name)
		} else if hosts := c.routes[routeOf(name)]; hosts != nil {
			delete(hosts, name)
			delete(c.young, routeOf(name))
		}
	}
	if c.exclusive {
		c.checkDomains()
	}
	return nil
}

// checkDomains checks what Envoy demands of the virtual hosts in force, and that their clusters are there.
func (c *vhostClient) checkDomains() {
	for route, hosts := range c.routes {
		owner := map[string]string{}
		for name, content := range hosts {
			domain, rest, _ := strings.Cut(content, ">")
			cluster, _, _ := strings.Cut(rest, "#")
			if owner[domain] != "" {
				c.t.Fatalf("%s: %s and %s both have the domain %s", route, name, owner[domain], domain)
			}
			owner[domain] = name
			if _, ok := c.clusters[cluster]; !ok {
				c.t.Fatalf("%s leads to %s, which the client does not hold", name, cluster)
			}
		}
	}
}

func (c *vhostClient) ack(typ string) {
	e, waiting := c.unacked[typ]
	if !waiting {
		return
	}
	delete(c.unacked, typ)
	c.request(&Request{TypeURL: fakeTypes[typ], Nonce: c.nonce[typ], Error: e})
	if typ == "rds" && !c.asked["vhds"] && len(c.routes) > 0 {
		c.begin("vhds")
	}
}

func (c *vhostClient) settle() {
	c.session.Publish(c.now, c.world.publish())
	for quiet := 0; quiet < 60; quiet++ {
		if c.receive() > 0 || len(c.unacked) > 0 {
			quiet = 0
		}
		for _, typ := range vhostTypes {
			c.ack(typ)
		}
		c.session.Publish(c.now, c.world.current())
		c.now = c.now.Add(500 * time.Millisecond)
	}
}

// compare checks that the client has in force what the world says.
func (c *vhostClient) compare() {
	for route := range c.wanted {
		hosts := c.routes[route]
		if hosts == nil {
			c.t.Fatalf("the client does not hold the route %s", route)
		}
		if c.young[route] {
			c.t.Fatalf("the client waits for the virtual hosts of %s", route)
		}
		want := map[string]string{}
		for n, r := range c.world.slot(translate.VirtualHostType).want {
			if routeOf(n) == route {
				want[n] = strings.TrimPrefix(string(r.Body.Flat()), n+"=")
			}
		}
		if !maps.Equal(hosts, want) {
			c.t.Fatalf("%s holds %v, want %v", route, hosts, want)
		}
	}
	for n := range c.said["vhds"] {
		if len(c.wanted) > 0 && c.asked["vhds"] && !c.wanted[routeOf(n)] {
			c.t.Fatalf("the client still says it holds %s, whose route it has left", n)
		}
	}
}

// edit changes the world: one cluster, and one or two virtual hosts, whose domains it swaps.
func (c *vhostClient) edit(t *rapid.T, n int) {
	route := rapid.SampledFrom([]string{"80", "81"}).Draw(t, "route")
	if !c.exclusive {
		c.set(translate.RouteType, route, rapid.SampledFrom([]string{"good", "good", "bad"}).Draw(t, "content")+fmt.Sprint(n), "")
	}
	cluster := fmt.Sprint("c", n%3)
	c.set(translate.ClusterType, cluster, fmt.Sprint(n), "")
	hosts := []string{route + "/a", route + "/b", route + "/c"}
	hosts = rapid.Permutation(hosts).Draw(t, "hosts")
	first := c.domain(hosts[0], "")
	second := c.domain(hosts[1], first)
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		c.world.set(translate.VirtualHostType, hosts[0], nil)
	case 1: // the domain of one that goes
		c.world.set(translate.VirtualHostType, hosts[1], nil)
		c.set(translate.VirtualHostType, hosts[0], second+">"+cluster+fmt.Sprint("#", n), cluster)
	case 2:
		c.set(translate.VirtualHostType, hosts[0], second+">"+cluster+fmt.Sprint("#", n), cluster)
		c.set(translate.VirtualHostType, hosts[1], first+">c0"+fmt.Sprint("#", n), "c0")
	default:
		content := first + ">" + cluster + fmt.Sprint("#", n)
		if !c.exclusive && rapid.IntRange(0, 3).Draw(t, "bad") == 0 {
			content = "bad"
		}
		c.set(translate.VirtualHostType, hosts[0], content, cluster)
	}
	t.Logf("edit %d of %v", n, hosts)
}

func (c *vhostClient) set(url, name, content, cluster string) {
	r := fakeResource(url, name, content)
	if cluster != "" {
		r.Clusters = []string{cluster}
	}
	c.world.set(url, name, r)
}

// domain returns the domain of a virtual host: that in its content, or one that no other of its route has and
// that is not taken.
func (c *vhostClient) domain(host, taken string) string {
	all := c.world.slot(translate.VirtualHostType).want
	used := map[string]bool{taken: true}
	for n, r := range all {
		content := strings.TrimPrefix(string(r.Body.Flat()), n+"=")
		domain, _, _ := strings.Cut(content, ">")
		if n == host && !bad(content) {
			return domain
		}
		if routeOf(n) == routeOf(host) {
			used[domain] = true
		}
	}
	for i := 0; ; i++ {
		if d := fmt.Sprint("d", i); !used[d] {
			return d
		}
	}
}

// TestVirtualHostsArrive: after any history of edits, subscriptions, rejections and reconnects, every route the client
// wants has the virtual hosts that were published last. Without rejections the client holds at no time two with the same
// domain, nor one that leads to a cluster it does not hold.
func TestVirtualHostsArrive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := newVhostClient(t, rapid.Bool().Draw(t, "exclusive"))
		for i := range 3 {
			c.set(translate.ClusterType, fmt.Sprint("c", i), "0", "")
		}
		for _, route := range []string{"80", "81"} {
			c.set(translate.RouteType, route, "1", "")
		}
		c.connect()
		c.settle() // clusters first, as Envoy asks
		n := 0
		t.Repeat(map[string]func(*rapid.T){
			"edit":    func(t *rapid.T) { n++; c.edit(t, n); c.session.Publish(c.now, c.world.publish()); c.receive() },
			"publish": func(*rapid.T) { c.session.Publish(c.now, c.world.current()); c.receive() },
			"receive": func(*rapid.T) { c.receive() },
			"advance": func(*rapid.T) { c.now = c.now.Add(700 * time.Millisecond); c.receive() },
			"ack":     func(t *rapid.T) { c.ack(rapid.SampledFrom(vhostTypes).Draw(t, "type")) },
			"toggle": func(t *rapid.T) {
				c.toggle(rapid.SampledFrom([]string{"80", "81"}).Draw(t, "route"), rapid.Bool().Draw(t, "again"))
			},
			"reconnect": func(*rapid.T) {
				// A client that claims a route without having had its virtual hosts, and claims those from before it
				// had left the route, cannot be told from one that has them.
				for route := range c.young {
					for n := range c.said["vhds"] {
						if routeOf(n) == route {
							return
						}
					}
				}
				c.connect()
			},
		})
		c.settle()
		c.heal()
		c.settle()
		c.compare()
	})
}

// heal makes everything good that is bad.
func (c *vhostClient) heal() {
	for _, url := range []string{translate.RouteType, translate.VirtualHostType} {
		for n, r := range c.world.slot(url).want {
			if bad(strings.TrimPrefix(string(r.Body.Flat()), n+"=")) {
				c.set(url, n, c.domain(n, "")+">c0", "c0")
			}
		}
	}
	c.session.Publish(c.now, c.world.publish())
}
