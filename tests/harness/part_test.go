package harness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestEventuallyReportsWhatIsMissing(t *testing.T) {
	t.Parallel()
	calls := 0
	Eventually(t, time.Minute, func(context.Context) error {
		if calls++; calls < 3 {
			return errSaid("early")
		}
		return nil
	})
	if calls != 3 {
		t.Errorf("got %d calls, want 3", calls)
	}
	got := outcome(func(t testing.TB) {
		Eventually(t, 5*time.Millisecond, func(context.Context) error { return errSaid("the moon is missing") })
	})
	if !strings.Contains(got.failure, "the moon is missing") {
		t.Errorf("got the failure %q, want one that says what is missing", got.failure)
	}
}

func TestReservedPortIsGivenToNobodyElse(t *testing.T) {
	t.Parallel()
	port := NewPort(t)
	// A server that is told the number gets it, twice in a row.
	for range 2 {
		l, err := net.Listen("tcp", port.Address())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for range 500 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if got := portOf(l.Addr().String()); got == port.Number() {
			t.Errorf("the kernel gave away the reserved port %d", got)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProcessThatEndsIsReportedWithItsLog(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p, err := command{path: "/bin/sh", args: []string{"-c", "echo no such thing; exit 3"}, log: log}.start()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = p.ready(ctx, func(context.Context) error { return errSaid("never") })
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("got %v, want the status and the log", err)
	}
	if err := p.kill(); err != nil {
		t.Errorf("killing a dead process: %v", err)
	}
}

func TestTerminateKillsWhatStays(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	p, err := command{path: "/bin/sh", args: []string{"-c", "trap '' TERM; echo on; while :; do read x; done"}, log: log}.start()
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, time.Minute, func(context.Context) error {
		if lines, err := readLog(log, "on"); err != nil || len(lines) == 0 {
			return fmt.Errorf("no trap yet: %w", err)
		}
		return nil
	})
	if err := p.terminate(10 * time.Millisecond); err == nil || !strings.Contains(err.Error(), "did not end") {
		t.Errorf("got %v, want a complaint", err)
	}
	if p.exited() == nil {
		t.Error("the process still runs")
	}
}

func TestHTTPBackendAnswersWhatItWasAsked(t *testing.T) {
	t.Parallel()
	b := NewHTTPBackend(t, HTTPBackendOptions{Name: "reviews-v1"})
	for proto, opts := range map[string]ClientOptions{"HTTP/1.1": {}, "HTTP/2.0": {HTTP2: true}} {
		client := NewClient(opts)
		t.Cleanup(client.Close)
		reply, err := client.Do(t.Context(), Request{
			Method: "POST", URL: "http://" + b.Address() + "/a?b=c", Host: "reviews", Header: http.Header{"x-user": {"jason"}},
			Body: "hello",
		})
		if err != nil {
			t.Fatal(err)
		}
		e := reply.Echo
		if e.Backend != "reviews-v1" || e.Proto != proto || e.Method != "POST" || e.Host != "reviews" || e.Path != "/a?b=c" ||
			e.Headers.Get("X-User") != "jason" || e.Body != "hello" {
			t.Errorf("got %+v over %s", e, proto)
		}
	}
	if got := b.Requests(); got != 2 {
		t.Errorf("got %d requests, want 2", got)
	}
}

func TestHTTPBackendBehavesAsTold(t *testing.T) {
	t.Parallel()
	b := NewHTTPBackend(t, HTTPBackendOptions{Name: "b", Behaviour: Behaviour{
		Status: 503, Failures: 2, Delay: 5 * time.Millisecond, Header: http.Header{"x-it": {"is"}},
	}})
	client := NewClient(ClientOptions{})
	t.Cleanup(client.Close)
	for i, want := range []int{503, 503, 200} {
		reply, err := client.Get(t.Context(), "http://"+b.Address(), "")
		if err != nil {
			t.Fatal(err)
		}
		if reply.Status != want || reply.Header.Get("X-It") != "is" || reply.Took < 5*time.Millisecond {
			t.Errorf("request %d: got %d after %v with %v", i, reply.Status, reply.Took, reply.Header)
		}
	}
	b.Set(Behaviour{Status: 302, Header: http.Header{"Location": {"/there"}}})
	if reply, err := client.Get(t.Context(), "http://"+b.Address(), ""); err != nil || reply.Status != 302 {
		t.Errorf("got %+v, %v; want the redirect itself", reply, err)
	}
	b.Set(Behaviour{Abort: true, Failures: 1})
	ask := Request{Method: http.MethodPost, URL: "http://" + b.Address() + "/broken"} // a GET would be sent again
	if reply, err := client.Do(t.Context(), ask); err == nil || b.Last().Path != "/broken" {
		t.Errorf("got %+v, want a broken connection; the last request is %+v", reply, b.Last())
	}
	if reply, err := client.Do(t.Context(), ask); err != nil || reply.Status != 200 {
		t.Errorf("got %+v, %v after the one that broke", reply, err)
	}
}

func TestTCPEcho(t *testing.T) {
	t.Parallel()
	e := NewTCPEcho(t, "db", "")
	conn, err := net.Dial("tcp", e.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "ping\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	for _, want := range []string{"db\n", "ping\n"} {
		if got, err := r.ReadString('\n'); err != nil || got != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
	e.Close()
	if _, err := r.ReadByte(); err == nil {
		t.Error("a closed echo server keeps its connections")
	}
}

func TestLoadCountsOutcomesAndQuotesFailures(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	load := NewLoad(t, LoadOptions{Rate: 2000}, func(context.Context) (string, error) {
		if i := n.Add(1); i%4 == 0 {
			return "503", errSaid("no healthy upstream")
		}
		return "v1", nil
	})
	Eventually(t, time.Minute, func(context.Context) error {
		if sent := load.Report().Sent; sent < 100 {
			return fmt.Errorf("only %d sent", sent)
		}
		return nil
	})
	r := load.Stop()
	if r.Sent != int(n.Load()) || r.Failed != r.Sent/4 || r.Counts["v1"] != r.Sent-r.Failed || len(r.Failures) != keptFailures {
		t.Errorf("got %v", r)
	}
	if text := r.String(); !strings.Contains(text, "no healthy upstream") || !strings.Contains(text, "v1=") {
		t.Errorf("the report does not tell what happened: %s", text)
	}
	if again := load.Stop(); again.Sent != r.Sent {
		t.Errorf("sent %d after it was stopped", again.Sent-r.Sent)
	}
}

func TestLoadIsBounded(t *testing.T) {
	t.Parallel()
	var out, most atomic.Int64
	release := make(chan struct{})
	load := NewLoad(t, LoadOptions{Rate: 5000, InFlight: 3}, func(context.Context) (string, error) {
		most.Store(max(most.Load(), out.Add(1)))
		<-release
		out.Add(-1)
		return "v1", nil
	})
	Eventually(t, time.Minute, func(context.Context) error {
		if load.Report().Late == 0 {
			return errSaid("no request had to wait yet")
		}
		return nil
	})
	close(release)
	if r := load.Stop(); most.Load() > 3 || r.Failed != 0 {
		t.Errorf("%d in flight, %v", most.Load(), r)
	}
}
