package envoy

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/mizzen-mesh/mizzen/tests/harness"
	"github.com/mizzen-mesh/mizzen/tests/world"
)

// edit is one state of a case: what the user's file says, who answers then, and which cluster comes or goes in the end.
type edit struct {
	manifest    string
	answers     string
	comes, goes string
	// passing is a state that is left again as soon as it is committed, as when a user applies two objects.
	passing bool
}

// legalEdits are edits of one file under load, each case with the listener and host that the requests use.
type legalEdits struct {
	name     string
	listener int
	host     string
	edits    []edit
	// late is how many answers with endpoints must have been late meanwhile, at least.
	late int64
}

func (s *stage) cases() []legalEdits {
	return []legalEdits{
		s.renamedSubset(), s.renamedInTwo(), s.changedCluster(), s.repointed(), s.stillReferenced(), s.movedAndRemoved(),
		s.removedThenMoved(), s.portOfRoute(), s.portOfService(), s.targetPort(), s.newDestination(),
	}
}

// G4: legal edits while endpoints are late, under 200 requests a second, and no request fails. A route must not lead to
// a cluster before that is warm, and no cluster may go before the routes to it.
func TestEditsWithLateEndpointsFailNoRequest(t *testing.T) {
	t.Parallel()
	for _, protocol := range []harness.XDSProtocol{harness.DeltaXDS, harness.SotWXDS} {
		t.Run(string(protocol), func(t *testing.T) {
			t.Parallel()
			s := newStage(t, protocol)
			for _, c := range s.cases() {
				t.Run(c.name, func(t *testing.T) { s.run(t, c) })
			}
			t.Run("new host", s.newHost)
			if err := s.caller.NoRejections(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

func (s *stage) run(t *testing.T, c legalEdits) {
	call := s.call(c.listener, c.host)
	write(t, s.dir, "case.yaml", c.edits[0].manifest)
	harness.Eventually(t, 15*time.Second, only(call, c.edits[0].answers))
	late := s.relay.Delayed()
	l := harness.NewLoad(t, harness.LoadOptions{Rate: 200}, call)
	for _, e := range c.edits[1:] {
		generation := s.plane.Generation()
		write(t, s.dir, "case.yaml", e.manifest)
		if e.passing {
			harness.Eventually(t, 15*time.Second, func(context.Context) error {
				if s.plane.Generation() == generation {
					return fmt.Errorf("generation %d still", generation)
				}
				return nil
			})
			continue
		}
		harness.Eventually(t, 15*time.Second, only(call, e.answers))
		harness.Eventually(t, 15*time.Second, s.has(e.comes, true))
		harness.Eventually(t, 15*time.Second, s.has(e.goes, false))
		moreRequests(t, l, 40)
	}
	r := l.Stop()
	n := s.relay.Delayed() - late
	t.Logf("%d edits, %d answers with endpoints %v late; %v", len(c.edits)-1, n, lateness, r)
	if r.Failed > 0 || r.Sent == 0 {
		t.Errorf("%d of %d requests failed", r.Failed, r.Sent)
	}
	if n < c.late {
		t.Errorf("only %d answers with endpoints were late, want %d at least", n, c.late)
	}
}

// moreRequests waits until the load has had n more answers.
func moreRequests(t *testing.T, l *harness.Load, n int) {
	t.Helper()
	from := l.Report().Sent
	harness.Eventually(t, 15*time.Second, func(context.Context) error {
		if sent := l.Report().Sent; sent < from+n {
			return fmt.Errorf("%d requests", sent-from)
		}
		return nil
	})
}

// subset is a service with subsets that all choose workload w, and a route to a subset.
func (s *stage) subset(w int, routed string, made ...string) string {
	var subsets string
	for _, name := range made {
		subsets += fmt.Sprintf("{name: %s, labels: {version: v%d}},", name, w)
	}
	return s.service("reviews", 0, w, s.ports[0]) + fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: reviews, namespace: %[1]s}
spec: {host: reviews, subsets: [%[2]s]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: reviews, namespace: %[1]s}
spec: {hosts: [reviews], http: [{route: [{destination: {host: reviews, subset: %[3]s}}]}]}
`, world.Namespace, subsets, routed)
}

func (s *stage) subsetCluster(name string) string {
	return fmt.Sprintf("outbound|%d|%s|%s", s.ports[0], name, serviceHost("reviews"))
}

// renamedSubset renames a subset together with the route to it.
func (s *stage) renamedSubset() legalEdits {
	a, b, c := s.subsetCluster("a"), s.subsetCluster("b"), s.subsetCluster("c")
	return legalEdits{name: "subset renamed", host: serviceHost("reviews"), late: 3, edits: []edit{
		{manifest: s.subset(1, "a", "a"), answers: answerOf(1, 0)},
		{manifest: s.subset(1, "b", "b"), answers: answerOf(1, 0), comes: b, goes: a},
		{manifest: s.subset(2, "c", "c"), answers: answerOf(2, 0), comes: c, goes: b},
		{manifest: s.subset(1, "a", "a"), answers: answerOf(1, 0), comes: a, goes: c},
	}}
}

// renamedInTwo does the same by two objects that are applied one after the other: for a moment the route leads to a
// subset that is gone.
func (s *stage) renamedInTwo() legalEdits {
	a, b := s.subsetCluster("a"), s.subsetCluster("b")
	return legalEdits{name: "subset renamed in two steps", host: serviceHost("reviews"), late: 1, edits: []edit{
		{manifest: s.subset(1, "a", "a", "b"), answers: answerOf(1, 0)},
		{manifest: s.subset(1, "a", "b"), passing: true}, // the other is there already
		{manifest: s.subset(1, "b", "b"), answers: answerOf(1, 0), comes: b, goes: a},
		{manifest: s.subset(1, "b", "a"), passing: true}, // the other is made with it
		{manifest: s.subset(1, "a", "a"), answers: answerOf(1, 0), comes: a, goes: b},
	}}
}

// changedCluster changes a cluster in place: Envoy warms it anew, with endpoints that it does not ask for.
func (s *stage) changedCluster() legalEdits {
	state := func(streams int) string {
		return s.service("a", 0, 1, s.ports[0]) + fmt.Sprintf(`---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: a, namespace: %s}
spec: {host: a, trafficPolicy: {connectionPool: {http: {http2MaxRequests: %d}}}}
`, world.Namespace, streams)
	}
	// The line of /clusters that follows a name tells its limits.
	limit := func(n int) string { return s.cluster("a", 0) + "::default_priority::max_requests::" + fmt.Sprint(n) }
	return legalEdits{name: "cluster changed", host: serviceHost("a"), late: 2, edits: []edit{
		{manifest: state(1001), answers: answerOf(1, 0)},
		{manifest: state(1002), answers: answerOf(1, 0), comes: limit(1002)},
		{manifest: state(1003), answers: answerOf(1, 0), comes: limit(1003)},
	}}
}

func to(name string) string { return fmt.Sprintf("  - route: [{destination: {host: %s}}]\n", name) }

func (s *stage) cluster(name string, port int) string {
	return fmt.Sprintf("outbound|%d||%s", s.ports[port], serviceHost(name))
}

// repointed leads a VirtualService to another service that is there all the time.
func (s *stage) repointed() legalEdits {
	state := func(name string) string {
		return s.service("a", 0, 1, s.ports[0]) + s.service("bb", 0, 2, s.ports[0]) + s.front("front", to(name))
	}
	return legalEdits{name: "re-pointed", host: serviceHost("front"), edits: []edit{
		{manifest: state("a"), answers: answerOf(1, 0)},
		{manifest: state("bb"), answers: answerOf(2, 0)},
		{manifest: state("a"), answers: answerOf(1, 0)},
		{manifest: state("bb"), answers: answerOf(2, 0)},
	}}
}

// stillReferenced removes a service that a route names which no request takes, and that has no weight in another.
func (s *stage) stillReferenced() legalEdits {
	without := s.service("a", 0, 1, s.ports[0]) + s.front("front", `  - match: [{headers: {x-canary: {exact: "yes"}}}]
    route: [{destination: {host: bb}}]
  - route: [{destination: {host: a}, weight: 100}, {destination: {host: bb}, weight: 0}]
`)
	with, bb := without+s.service("bb", 0, 2, s.ports[0]), s.cluster("bb", 0)
	return legalEdits{name: "removed while referenced", host: serviceHost("front"), late: 1, edits: []edit{
		{manifest: with, answers: answerOf(1, 0)},
		{manifest: without, answers: answerOf(1, 0), goes: bb},
		{manifest: with, answers: answerOf(1, 0), comes: bb},
		{manifest: without, answers: answerOf(1, 0), goes: bb},
	}}
}

// movedAndRemoved takes a service away in the edit that leads its route elsewhere, and brings it back likewise.
func (s *stage) movedAndRemoved() legalEdits {
	a := s.service("a", 0, 1, s.ports[0]) + s.front("front", to("a"))
	b := s.service("bb", 0, 2, s.ports[0]) + s.front("front", to("bb"))
	return legalEdits{name: "moved and removed", host: serviceHost("front"), late: 3, edits: []edit{
		{manifest: a, answers: answerOf(1, 0)},
		{manifest: b, answers: answerOf(2, 0), comes: s.cluster("bb", 0), goes: s.cluster("a", 0)},
		{manifest: a, answers: answerOf(1, 0), comes: s.cluster("a", 0), goes: s.cluster("bb", 0)},
		{manifest: b, answers: answerOf(2, 0), comes: s.cluster("bb", 0), goes: s.cluster("a", 0)},
	}}
}

// removedThenMoved takes a service away and leads its route elsewhere right after: for a moment the route names a service
// that is gone.
func (s *stage) removedThenMoved() legalEdits {
	a, b := s.service("a", 0, 1, s.ports[0]), s.service("bb", 0, 2, s.ports[0])
	return legalEdits{name: "removed, then moved", host: serviceHost("front"), late: 1, edits: []edit{
		{manifest: a + b + s.front("front", to("a")), answers: answerOf(1, 0)},
		{manifest: b + s.front("front", to("a")), passing: true},
		{manifest: b + s.front("front", to("bb")), answers: answerOf(2, 0), goes: s.cluster("a", 0)},
		{manifest: a + b + s.front("front", to("a")), answers: answerOf(1, 0), comes: s.cluster("a", 0)},
		{manifest: b + s.front("front", to("a")), passing: true},
		{manifest: b + s.front("front", to("bb")), answers: answerOf(2, 0), goes: s.cluster("a", 0)},
	}}
}

// portOfRoute changes the port of a service and of the route to it in the same edit.
func (s *stage) portOfRoute() legalEdits {
	state := func(i int) string {
		return s.service("a", 0, 1, s.ports[i]) + s.front("front", fmt.Sprintf("  - route: [{destination: {host: a, port: {number: %d}}}]\n", s.ports[i]))
	}
	a0, a1 := s.cluster("a", 0), s.cluster("a", 1)
	return legalEdits{name: "port changed with the route", host: serviceHost("front"), late: 3, edits: []edit{
		{manifest: state(0), answers: answerOf(1, 0)},
		{manifest: state(1), answers: answerOf(1, 0), comes: a1, goes: a0},
		{manifest: state(0), answers: answerOf(1, 0), comes: a0, goes: a1},
		{manifest: state(1), answers: answerOf(1, 0), comes: a1, goes: a0},
	}}
}

// portOfService moves a service from one port to another by having both for a while; the clients are at the new one.
func (s *stage) portOfService() legalEdits {
	both, second, a0 := s.service("a", 0, 1, s.ports[0], s.ports[1]), s.service("a", 0, 1, s.ports[1]), s.cluster("a", 0)
	return legalEdits{name: "port changed, no route", listener: 1, host: serviceHost("a"), late: 1, edits: []edit{
		{manifest: both, answers: answerOf(1, 0)},
		{manifest: second, answers: answerOf(1, 0), goes: a0},
		{manifest: both, answers: answerOf(1, 0), comes: a0},
		{manifest: second, answers: answerOf(1, 0), goes: a0},
	}}
}

// targetPort changes the port of the application while both are served.
func (s *stage) targetPort() legalEdits {
	first, second := s.service("a", 0, 1, s.ports[0]), s.service("a", 1, 1, s.ports[0])
	return legalEdits{name: "target port changed", host: serviceHost("a"), late: 3, edits: []edit{
		{manifest: first, answers: answerOf(1, 0)},
		{manifest: second, answers: answerOf(1, 1)},
		{manifest: first, answers: answerOf(1, 0)},
		{manifest: second, answers: answerOf(1, 1)},
	}}
}

// newDestination leads a route to a service that the same edit makes.
func (s *stage) newDestination() legalEdits {
	a, b, c := s.service("a", 0, 1, s.ports[0]), s.service("bb", 0, 2, s.ports[0]), s.service("ccc", 0, 3, s.ports[0])
	return legalEdits{name: "new destination", host: serviceHost("front"), late: 2, edits: []edit{
		{manifest: a + s.front("front", to("a")), answers: answerOf(1, 0)},
		{manifest: a + b + s.front("front", to("bb")), answers: answerOf(2, 0), comes: s.cluster("bb", 0)},
		{manifest: a + b + c + s.front("front", to("ccc")), answers: answerOf(3, 0), comes: s.cluster("ccc", 0)},
	}}
}

// newHost makes a service and a VirtualService for a new host in one edit. Until it works the host is unknown (502 by
// the caller's policy); it is never known and unavailable.
func (s *stage) newHost(t *testing.T) {
	write(t, s.dir, "case.yaml", s.service("a", 0, 1, s.ports[0]))
	harness.Eventually(t, 15*time.Second, only(s.call(0, serviceHost("a")), answerOf(1, 0)))
	known := make(chan struct{})
	url, host := fmt.Sprintf("http://%s:%d/", world.CallerIP, s.ports[0]), serviceHost("newcomer")
	l := harness.NewLoad(t, harness.LoadOptions{Rate: 200, InFlight: 1}, func(ctx context.Context) (string, error) {
		r, err := s.client.Get(ctx, url, host)
		if err != nil {
			return "", err
		}
		select {
		case <-known:
		default:
			switch r.Status {
			case 502:
				return "unknown", nil
			case 200:
				close(known)
			}
		}
		if r.Status != 200 {
			return "", fmt.Errorf("status %d: %.200s", r.Status, r.Body)
		}
		return r.Echo.Backend, nil
	})
	moreRequests(t, l, 20)
	write(t, s.dir, "case.yaml", s.service("a", 0, 1, s.ports[0])+s.service("bb", 0, 2, s.ports[0])+s.front("newcomer", to("bb")))
	harness.Eventually(t, 15*time.Second, only(s.call(0, host), answerOf(2, 0)))
	moreRequests(t, l, 100)
	r := l.Stop()
	t.Log(r)
	if r.Failed > 0 || r.Counts["unknown"] == 0 || r.Counts[answerOf(2, 0)] == 0 {
		t.Errorf("%d of %d requests failed", r.Failed, r.Sent)
	}
}
