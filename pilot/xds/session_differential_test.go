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
)

// simClient behaves like Envoy as far as the order of messages and what it holds go: it subscribes to the endpoints of
// its clusters, takes the good part of what it rejects in clusters and listeners and an arbitrary part of others, and
// acknowledges when it is told to.
type simClient struct {
	t       *rapid.T
	delta   bool
	world   *fakeWorld
	session *Session
	now     time.Time
	timing  Timing

	held    map[string]map[string]string // short type, name, content
	version map[string]map[string]string
	names   map[string]map[string]bool // named types
	asked   map[string]bool
	nonce   map[string]string
	unacked map[string]*rpcstatus.Status // short type to the error or nil
	check   func(*simClient)
	streams int // connected so far
}

var simWildcards, simNamed = []string{"cds", "lds"}, []string{"eds", "rds", "sds"}

func newSimClient(t *rapid.T, delta bool, timing Timing) *simClient {
	c := &simClient{
		t: t, delta: delta, world: newFakeWorld(), now: epoch, timing: timing,
		held: map[string]map[string]string{}, version: map[string]map[string]string{}, names: map[string]map[string]bool{},
	}
	for _, typ := range slices.Concat(simWildcards, simNamed) {
		c.held[typ], c.version[typ], c.names[typ] = map[string]string{}, map[string]string{}, map[string]bool{}
	}
	return c
}

// connect begins a stream; what the client holds from before it says.
func (c *simClient) connect() {
	c.streams++
	c.world.demand, c.world.uses = map[string]Names{}, map[string]bool{}
	c.session = newTestSession(c.delta, c.world, c.timing)
	c.asked, c.nonce, c.unacked = map[string]bool{}, map[string]string{}, map[string]*rpcstatus.Status{}
	c.session.Publish(c.now, c.world.current())
	for _, typ := range []string{"cds", "eds", "lds", "rds", "sds"} {
		named := slices.Contains(simNamed, typ)
		if named && len(c.names[typ]) == 0 {
			continue
		}
		c.begin(typ)
	}
}

// begin sends the first request for a type.
func (c *simClient) begin(typ string) {
	r := &Request{TypeURL: fakeTypes[typ]}
	if c.delta {
		r.Subscribe = slices.Sorted(maps.Keys(c.names[typ]))
		if len(c.version[typ]) > 0 {
			r.Initial = maps.Clone(c.version[typ])
		}
	} else {
		r.Names = slices.Sorted(maps.Keys(c.names[typ]))
		if len(c.held[typ]) > 0 {
			r.Version, r.Nonce = "before", "before"
		}
	}
	c.asked[typ] = true
	c.request(r)
}

func (c *simClient) request(r *Request) {
	c.t.Logf("%s: request nonce %q subscribe %v unsubscribe %v names %v initial %v error %v", shortType(r.TypeURL), r.Nonce, r.Subscribe, r.Unsubscribe, r.Names, r.Initial, r.Error != nil)
	eff := c.session.Request(c.now, r)
	if eff.Err != nil {
		c.t.Fatalf("the stream was closed: %v", eff.Err)
	}
	if eff.Stale {
		c.t.Fatalf("a right nonce was called stale: %+v", r)
	}
	if c.world.apply(eff) {
		c.session.Publish(c.now, c.world.current())
	}
}

// subscribe changes the names of a named type.
func (c *simClient) subscribe(typ string, add, remove []string) {
	for _, n := range add {
		c.names[typ][n] = true
	}
	for _, n := range remove {
		delete(c.names[typ], n)
		delete(c.held[typ], n)
		delete(c.version[typ], n)
	}
	switch {
	case !c.asked[typ]:
		if len(c.names[typ]) > 0 {
			c.begin(typ)
		}
	case c.delta:
		c.request(&Request{TypeURL: fakeTypes[typ], Subscribe: add, Unsubscribe: remove})
	default:
		if e := c.unacked[typ]; e != nil {
			c.ack(typ) // or the new names would acknowledge what was rejected
		}
		c.request(&Request{TypeURL: fakeTypes[typ], Names: slices.Sorted(maps.Keys(c.names[typ])), Nonce: c.nonce[typ], Version: "x"})
		delete(c.unacked, typ) // such a request acknowledges
		c.asked[typ] = len(c.names[typ]) > 0
	}
}

// receive takes every response there is.
func (c *simClient) receive() (n int) {
	for {
		r, _ := c.session.Next(c.now)
		if r == nil {
			return n
		}
		n++
		m := decode(c.t, c.delta, r)
		typ := shortType(m.typeURL)
		c.t.Logf("%s: response %s %v removed %v", typ, m.nonce, m.resources, m.removed)
		if _, waiting := c.unacked[typ]; waiting {
			c.t.Fatalf("%s: a second response is in flight", typ)
		}
		c.nonce[typ] = m.nonce
		c.unacked[typ] = c.take(typ, m)
		if c.check != nil {
			c.check(c)
		}
	}
}

func bad(content string) bool { return strings.HasPrefix(content, "bad") }

// take applies a response and returns the error of its NACK, if any.
func (c *simClient) take(typ string, m wireResponse) *rpcstatus.Status {
	for _, content := range m.resources {
		if strings.HasPrefix(content, "badshape") {
			return &rpcstatus.Status{Code: 13, Message: "Proto constraint validation failed"} // nothing is in force
		}
	}
	var culprits []string
	complete := !c.delta && slices.Contains(simWildcards, typ)
	for _, n := range m.order {
		switch {
		case bad(m.resources[n]):
			culprits = append(culprits, n)
		case len(culprits) > 0 && slices.Contains(simNamed, typ):
			// an arbitrary part stays out: here what comes behind the bad one
		default:
			c.held[typ][n] = m.resources[n]
			c.version[typ][n] = m.versions[n]
		}
	}
	for _, n := range m.removed {
		delete(c.held[typ], n)
		delete(c.version[typ], n)
	}
	if complete {
		for n := range c.held[typ] {
			if _, ok := m.resources[n]; !ok {
				delete(c.held[typ], n)
			}
		}
	}
	switch {
	case len(culprits) == 0:
		return nil
	case typ == "cds":
		return &rpcstatus.Status{Code: 13, Message: "Error adding/updating cluster(s) " + strings.Join(culprits, ": no, ") + ": no"}
	case typ == "lds":
		return &rpcstatus.Status{Code: 13, Message: "Error adding/updating listener(s) " + strings.Join(culprits, ": no\n") + ": no\n"}
	}
	return &rpcstatus.Status{Code: 13, Message: "no"}
}

// ack acknowledges or rejects the last response of a type and, as Envoy does, subscribes to what the clusters need.
func (c *simClient) ack(typ string) {
	e, waiting := c.unacked[typ]
	if !waiting {
		return
	}
	delete(c.unacked, typ)
	r := &Request{TypeURL: fakeTypes[typ], Nonce: c.nonce[typ], Error: e}
	if !c.delta {
		r.Names, r.Version = slices.Sorted(maps.Keys(c.names[typ])), "x"
	}
	c.request(r)
	if typ == "cds" {
		c.followClusters()
	}
}

func (c *simClient) followClusters() {
	var add, remove []string
	for _, n := range slices.Sorted(maps.Keys(c.held["cds"])) {
		if !c.names["eds"][n] {
			add = append(add, n)
		}
	}
	for _, n := range slices.Sorted(maps.Keys(c.names["eds"])) {
		if _, ok := c.held["cds"][n]; !ok {
			remove = append(remove, n)
		}
	}
	if len(add)+len(remove) > 0 {
		c.subscribe("eds", add, remove)
	}
}

// settle acknowledges everything and lets time pass until nothing happens any more.
func (c *simClient) settle() {
	c.session.Publish(c.now, c.world.current())
	for quiet := 0; quiet < 60; quiet++ {
		if c.receive() > 0 {
			quiet = 0
		}
		for _, typ := range []string{"eds", "cds", "lds", "rds", "sds"} {
			if _, waiting := c.unacked[typ]; waiting {
				quiet = 0
			}
			c.ack(typ)
		}
		c.now = c.now.Add(500 * time.Millisecond)
	}
}

// compare checks that the client holds what the world says.
func (c *simClient) compare() {
	for _, typ := range slices.Concat(simWildcards, simNamed) {
		want := map[string]*Resource{}
		for _, s := range c.world.slots {
			if s.slot.TypeURL != fakeTypes[typ] {
				continue
			}
			for n, r := range s.want {
				if want[n] == nil {
					want[n] = r
				}
			}
		}
		for n, r := range want {
			if slices.Contains(simNamed, typ) && !c.names[typ][n] {
				continue
			}
			content := strings.TrimPrefix(string(r.Body.Flat()), n+"=")
			if got := c.held[typ][n]; !bad(content) && got != content {
				c.t.Fatalf("delta=%v %s %s: the client holds %q, want %q", c.delta, typ, n, got, content)
			}
		}
		for n, got := range c.held[typ] {
			if bad(got) {
				c.t.Fatalf("the client holds a bad %s", n)
			}
			if want[n] == nil && (c.delta || slices.Contains(simWildcards, typ)) {
				c.t.Fatalf("delta=%v %s %s: the client holds %q, which is gone", c.delta, typ, n, got)
			}
		}
	}
}

// simEdit is one change of the world, the same for both clients.
type simEdit struct{ typ, name, content, cluster string }

func drawEdits(t *rapid.T, withBad bool) []simEdit {
	var out []simEdit
	for range rapid.IntRange(1, 3).Draw(t, "edits") {
		e := simEdit{typ: rapid.SampledFrom([]string{"cds", "cds", "eds", "lds", "rds", "sds"}).Draw(t, "type")}
		e.name = fmt.Sprint(e.typ[:1], rapid.IntRange(0, 4).Draw(t, "name"))
		if e.typ == "eds" {
			e.name = "c" + e.name[1:]
		}
		if rapid.IntRange(0, 3).Draw(t, "delete") > 0 {
			e.content = fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "content"))
			if withBad && rapid.IntRange(0, 5).Draw(t, "bad") == 0 {
				e.content = rapid.SampledFrom([]string{"bad", "badshape"}).Draw(t, "how") + e.content
			}
		}
		out = append(out, e)
	}
	return out
}

// edit changes the world; a busy stream does not see it before the next change.
func (c *simClient) edit(edits []simEdit, busy bool) {
	c.t.Logf("edit %v", edits)
	for _, e := range edits {
		if e.content == "" {
			c.world.set(fakeTypes[e.typ], e.name, nil)
			continue
		}
		r := fakeResource(fakeTypes[e.typ], e.name, e.content)
		if e.cluster != "" {
			r.Clusters = []string{e.cluster}
		}
		c.world.set(fakeTypes[e.typ], e.name, r)
	}
	if p := c.world.publish(); !busy {
		c.session.Publish(c.now, p)
	}
}

// TestDeltaEqualsStateOfTheWorld: after any history of publications, acknowledgements, rejections, subscriptions and
// reconnects, both clients hold what was published last.
func TestDeltaEqualsStateOfTheWorld(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		timing := DefaultTiming()
		timing.Ack, timing.ClusterAck = time.Hour, time.Hour // so that a second response in flight is an error
		clients := []*simClient{newSimClient(t, true, timing), newSimClient(t, false, timing)}
		each := func(f func(*simClient)) {
			for _, c := range clients {
				f(c)
				c.receive()
			}
		}
		each((*simClient).connect)
		t.Repeat(map[string]func(*rapid.T){
			"edit": func(t *rapid.T) {
				edits := drawEdits(t, true)
				busy := rapid.IntRange(0, 3).Draw(t, "busy") == 0
				each(func(c *simClient) { c.edit(edits, busy) })
			},
			"ack": func(t *rapid.T) {
				typ := rapid.SampledFrom([]string{"cds", "eds", "lds", "rds", "sds"}).Draw(t, "type")
				each(func(c *simClient) { c.ack(typ) })
			},
			"advance": func(t *rapid.T) {
				d := time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond
				each(func(c *simClient) { c.now = c.now.Add(d) })
			},
			"subscribe": func(t *rapid.T) {
				typ := rapid.SampledFrom([]string{"rds", "sds"}).Draw(t, "type")
				n := fmt.Sprint(typ[:1], rapid.IntRange(0, 4).Draw(t, "name"))
				each(func(c *simClient) {
					if c.names[typ][n] {
						c.subscribe(typ, nil, []string{n})
					} else {
						c.subscribe(typ, []string{n}, nil)
					}
				})
			},
			"reconnect": func(*rapid.T) { each((*simClient).connect) },
		})
		for _, c := range clients {
			c.settle()
			if c.delta || c.streams == 1 { // or else see quarantine_sotw_reconnect
				c.compare()
			}
			c.heal()
			c.settle()
			c.compare()
		}
	})
}

// heal makes everything good that is bad.
func (c *simClient) heal() {
	var edits []simEdit
	for _, s := range c.world.slots {
		for n, r := range s.want {
			if content := strings.TrimPrefix(string(r.Body.Flat()), n+"="); bad(content) {
				edits = append(edits, simEdit{typ: shortType(s.slot.TypeURL), name: n, content: "healed"})
			}
		}
	}
	c.edit(edits, false)
}

// TestMakeBeforeBreak: whatever the history, the client never holds a listener or route that leads to a cluster it does
// not hold, as long as no wait ends by its deadline. Listeners and routes are asked for when clusters are there, as
// Envoy does.
func TestMakeBeforeBreak(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		timing := DefaultTiming()
		timing.Ack, timing.ClusterAck, timing.ClusterWait = 1000*time.Hour, 1000*time.Hour, 1000*time.Hour
		c := newSimClient(t, rapid.Bool().Draw(t, "delta"), timing)
		leads := map[string]string{} // "rds/r0" to its cluster in the world
		c.check = func(c *simClient) {
			for _, typ := range []string{"lds", "rds"} {
				for n, content := range c.held[typ] {
					if _, to, _ := strings.Cut(content, ">"); c.held["cds"][to] == "" {
						t.Fatalf("%s %s leads to cluster %s, which the client does not hold", typ, n, to)
					}
				}
			}
		}
		for i := range 3 {
			c.names["rds"][fmt.Sprint("r", i)] = true
		}
		n := 0
		edit := func(t *rapid.T) {
			n++
			var edits []simEdit
			// some clusters come or change, what leads to clusters is pointed elsewhere, and some unused clusters go
			for range rapid.IntRange(1, 3).Draw(t, "clusters") {
				name := fmt.Sprint("c", rapid.IntRange(0, 4).Draw(t, "cluster"))
				edits = append(edits, simEdit{typ: "cds", name: name, content: fmt.Sprint(n)}, simEdit{typ: "eds", name: name, content: fmt.Sprint(n)})
			}
			for range rapid.IntRange(0, 3).Draw(t, "leads") {
				typ := rapid.SampledFrom([]string{"lds", "rds"}).Draw(t, "type")
				name := fmt.Sprint(typ[:1], rapid.IntRange(0, 2).Draw(t, "name"))
				to := edits[rapid.IntRange(0, len(edits)-1).Draw(t, "to")]
				if to.typ != "cds" {
					continue
				}
				e := simEdit{typ: typ, name: name, content: fmt.Sprint(n, ">", to.name)}
				if rapid.Bool().Draw(t, "precise") {
					e.cluster = to.name
				}
				leads[typ+"/"+name] = to.name
				edits = append(edits, e)
			}
			used := map[string]bool{}
			for _, to := range leads {
				used[to] = true
			}
			for i := range 5 {
				if name := fmt.Sprint("c", i); !used[name] && rapid.Bool().Draw(t, "remove") {
					edits = append(edits, simEdit{typ: "cds", name: name})
				}
			}
			c.edit(edits, false)
		}
		c.session = newTestSession(c.delta, c.world, timing)
		edit(t)
		c.connect()
		c.receive()
		t.Repeat(map[string]func(*rapid.T){
			"edit": func(t *rapid.T) { edit(t); c.receive() },
			"ack": func(t *rapid.T) {
				c.ack(rapid.SampledFrom([]string{"cds", "eds", "lds", "rds"}).Draw(t, "type"))
				c.receive()
			},
			"advance": func(*rapid.T) { c.now = c.now.Add(600 * time.Millisecond); c.receive() },
			"reconnect": func(t *rapid.T) {
				if c.delta {
					c.connect()
					c.receive()
				}
			},
		})
		c.settle()
		c.compare()
	})
}
