package grpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mizzen-mesh/mizzen/tests/harness"
)

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	m := newMesh(t, nil)
	m.serve(t, 1, 2)
	d := m.dialer(t, client(nil))
	for _, h := range []string{host, "echo", "echo.demo", "echo.demo.svc"} {
		c := d.dial(t, m.target(h))
		c.works(t)
		if got := c.count(t, 40); got["v1"] == 0 || got["v2"] == 0 {
			t.Errorf("%s: not both versions answered 40 calls: %v", h, got)
		}
	}
	c := d.dial(t, "xds:///"+host) // the service's only port
	c.works(t)
}

func TestWeightsAndSubsetsFollowLive(t *testing.T) {
	t.Parallel()
	m := newMesh(t, map[string]string{"rule.yaml": rule(""), "route.yaml": virtual(split(80, 20))})
	m.serve(t, 1, 2)
	c := m.dialer(t, client(nil)).dial(t, m.target(host))
	c.works(t)
	if got := c.count(t, 400); got["v1"] < 260 || got["v2"] < 30 {
		t.Errorf("of 400 calls, split 80 to 20: %v", got)
	}
	stop := load(t, c)
	m.write(t, "route.yaml", virtual(split(0, 100)))
	c.eventually(t, "v2")
	m.write(t, "route.yaml", virtual(split(100)))
	c.eventually(t, "v1")
	m.write(t, "slice.yaml", slice("echo", m.port, 1))
	m.write(t, "route.yaml", virtual("{route: [{destination: {host: echo}}]}"))
	c.eventually(t, "v1")
	stop()
}

// load calls until the returned function is called, which fails the test if a call failed. The library follows new routes
// a moment before its balancer has the clusters that they name, whatever the control plane does; the calls that it loses
// in that moment are counted apart.
func load(t *testing.T, c caller) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var failed error
	n, early, done := 0, 0, make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			_, err := c.call(context.WithoutCancel(ctx))
			n++
			if err != nil && strings.Contains(err.Error(), "unknown cluster selected") {
				early++
				continue
			}
			failed = errors.Join(failed, err)
		}
	}()
	return func() {
		t.Helper()
		cancel()
		<-done
		t.Logf("%d calls during the changes, %d of them lost by the library", n, early)
		if failed != nil || n == 0 {
			t.Errorf("of %d calls during the changes some failed: %v", n, failed)
		}
	}
}

func TestHeadersChooseTheSubset(t *testing.T) {
	t.Parallel()
	m := newMesh(t, map[string]string{"rule.yaml": rule(""), "route.yaml": virtual(
		`{match: [{headers: {x-version: {exact: "2"}}}], route: [{destination: {host: echo, subset: v2}}]}`,
		`{match: [{uri: {prefix: /grpc.testing.TestService/Unary}, headers: {x-path: {prefix: y}}}], route: [{destination: {host: echo, subset: v2}}]}`,
		split(100))})
	m.serve(t, 1, 2)
	c := m.dialer(t, client(nil)).dial(t, m.target(host))
	c.eventually(t, "v1")
	c.eventually(t, "v2", "x-version", "2")
	c.eventually(t, "v1", "x-version", "3")
	c.eventually(t, "v2", "x-path", "yes")
}

// TestWhatGRPCDoesNotKnow shows that settings which gRPC has no use for do not take the rest away.
func TestWhatGRPCDoesNotKnow(t *testing.T) {
	t.Parallel()
	m := newMesh(t, map[string]string{
		"rule.yaml": rule("loadBalancer: {consistentHash: {httpHeaderName: x-user, maglev: {tableSize: 1021}}}, " +
			"outlierDetection: {consecutive5xxErrors: 3}, connectionPool: {tcp: {maxConnections: 5}, http: {http2MaxRequests: 50}}"),
		"route.yaml": virtual(
			`{match: [{queryParams: {a: {exact: "b"}}}], route: [{destination: {host: echo, subset: v1}}]}`,
			`{corsPolicy: {allowOrigins: [{exact: "*"}]}, headers: {request: {set: {a: b}}}, mirror: {host: echo}, rewrite: {uri: /x}, `+
				`retries: {attempts: 3, retryOn: "cancelled,503"}, route: [{destination: {host: echo, subset: v2}}]}`),
	})
	m.serve(t, 1, 2)
	c := m.dialer(t, client(nil)).dial(t, m.target(host))
	c.eventually(t, "v2", "x-user", "a")
}

func TestFaultsAndTimeouts(t *testing.T) {
	t.Parallel()
	m := newMesh(t, map[string]string{"rule.yaml": rule(""), "route.yaml": virtual(
		`{match: [{headers: {x-fault: {exact: abort}}}], fault: {abort: {grpcStatus: DATA_LOSS, percentage: {value: 100}}}, route: [{destination: {host: echo}}]}`,
		`{match: [{headers: {x-hang: {exact: "yes"}}}], timeout: 0.2s, route: [{destination: {host: echo}}]}`,
		split(100))})
	m.serve(t, 1, 2)
	c := m.dialer(t, client(nil)).dial(t, m.target(host))
	c.eventually(t, "v1")
	if err := c.failure(t, "x-fault", "abort"); status.Code(err) != codes.DataLoss {
		t.Errorf("aborted with %v", err)
	}
	begin := time.Now()
	if _, err := c.call(t.Context(), "x-hang", "yes"); status.Code(err) != codes.DeadlineExceeded || time.Since(begin) >= callTimeout {
		t.Errorf("a call without an answer ended after %v with %v", time.Since(begin), err)
	}
}

// TestMissing shows that what does not exist is a clear error for those who ask for it, and that it is found when it
// comes to exist.
func TestMissing(t *testing.T) {
	t.Parallel()
	m := newMesh(t, map[string]string{"rule.yaml": rule("")})
	m.serve(t, 1, 2)
	d := m.dialer(t, client(nil))
	good := d.dial(t, m.target(host))
	good.works(t)
	stop := load(t, good)

	later := d.dial(t, m.target("later.demo.svc.cluster.local"))
	err := later.failure(t)
	t.Log(err)
	if status.Code(err) != codes.Unavailable { // what the library says of it varies
		t.Errorf("an unknown service: %v", err)
	}
	noPort := d.dial(t, "xds:///"+host+":1")
	if err := noPort.failure(t); status.Code(err) != codes.Unavailable {
		t.Errorf("an unknown port: %v", err)
	}
	good.count(t, 10)

	m.write(t, "later.yaml", fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata: {name: later, namespace: %s}\n"+
		"spec: {clusterIP: 10.96.0.21, ports: [{name: grpc, port: %d, protocol: TCP}]}\n---\n%s", namespace, m.port, slice("later", m.port, 2)))
	later.eventually(t, "v2")
	stop()

	m.write(t, "route.yaml", virtual("{route: [{destination: {host: echo, subset: v3}}]}"))
	err = good.failure(t)
	t.Log(err)
	if !strings.Contains(err.Error(), "v3") {
		t.Errorf("an unknown subset: %v", err)
	}
	later.count(t, 10)
	m.write(t, "route.yaml", virtual(split(100)))
	good.eventually(t, "v1")
}

func TestServiceGoesAndComes(t *testing.T) {
	t.Parallel()
	m := newMesh(t, nil)
	m.serve(t, 1, 2)
	c := m.dialer(t, client(nil)).dial(t, m.target(host))
	c.works(t)
	m.write(t, "base.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: demo}\n")
	t.Log(c.failure(t))
	m.write(t, "base.yaml", base(m.port))
	c.works(t)
}

// TestPlaneRestarts shows that clients keep what they have while there is no control plane, and follow the next one.
func TestPlaneRestarts(t *testing.T) {
	t.Parallel()
	m := prepare(t, map[string]string{"rule.yaml": rule(""), "route.yaml": virtual(split(100))})
	at := harness.NewPort(t).Address()
	_, stopPlane := startPlane(t, m.dir, at)
	m.plane = at
	m.serve(t, 1, 2)
	c := m.dialer(t, client(nil)).dial(t, m.target(host))
	c.eventually(t, "v1")
	stop := load(t, c)
	stopPlane()
	c.eventually(t, "v1")
	m.write(t, "route.yaml", virtual(split(0, 100)))
	startPlane(t, m.dir, at)
	c.eventually(t, "v2")
	stop()
}
