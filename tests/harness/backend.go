package harness

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Echo is what an HTTPBackend answers: who it is and what it was asked, as JSON.
type Echo struct {
	Backend string      `json:"backend"`
	Proto   string      `json:"proto"` // HTTP/1.1 or HTTP/2.0
	Method  string      `json:"method"`
	Host    string      `json:"host"`
	Path    string      `json:"path"` // with the query
	Headers http.Header `json:"headers"`
	Body    string      `json:"body,omitempty"`
}

// Behaviour is how a backend answers. The zero value answers 200 at once.
type Behaviour struct {
	Delay  time.Duration // before the answer
	Status int           // 0 means 200
	Header http.Header   // added to the answer
	// Abort breaks the connection off instead of answering.
	Abort bool
	// Failures limits Status and Abort to that many requests, later ones are answered with 200; 0 means all.
	Failures int
}

// HTTPBackendOptions chooses a backend's name, address and first behaviour.
type HTTPBackendOptions struct {
	Name      string
	Listen    string // host:port; empty means any port of 127.0.0.1
	Behaviour Behaviour
	TLS       *tls.Config // of a server that speaks TLS; nil means none
}

// HTTPBackend is an echo server that speaks HTTP/1.1 and HTTP/2 without TLS on one port, or HTTP/1.1 with TLS.
type HTTPBackend struct {
	name     string // fixed at construction, as the next two
	address  string
	server   *http.Server
	requests atomic.Int64

	mu     sync.Mutex // guards the rest
	behave Behaviour
	failed int
	last   Echo
}

// StartHTTPBackend starts a backend.
func StartHTTPBackend(opts HTTPBackendOptions) (*HTTPBackend, error) {
	listener, err := listen(opts.Listen)
	if err != nil {
		return nil, fmt.Errorf("starting the backend %s: %w", opts.Name, err)
	}
	b := &HTTPBackend{name: opts.Name, address: listener.Addr().String(), behave: opts.Behaviour}
	if opts.TLS != nil {
		listener = tls.NewListener(listener, opts.TLS)
	}
	protocols := &http.Protocols{}
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	b.server = &http.Server{Handler: http.HandlerFunc(b.serve), Protocols: protocols, ReadHeaderTimeout: time.Minute}
	// Clients that refuse a certificate are none of the backend's problems.
	b.server.ErrorLog = log.New(io.Discard, "", 0)
	go func() { _ = b.server.Serve(listener) }()
	return b, nil
}

// NewHTTPBackend starts a backend that lives as long as the test.
func NewHTTPBackend(t testing.TB, opts HTTPBackendOptions) *HTTPBackend {
	t.Helper()
	b, err := StartHTTPBackend(opts)
	must(t, err)
	t.Cleanup(b.Close)
	return b
}

// listen opens a TCP listener on the address, or on any loopback port if it is empty.
func listen(address string) (net.Listener, error) {
	if address == "" {
		address = "127.0.0.1:0"
	}
	return net.Listen("tcp", address)
}

// Address is host:port.
func (b *HTTPBackend) Address() string { return b.address }

// Port is the number of the port.
func (b *HTTPBackend) Port() int { return portOf(b.address) }

// Requests counts the requests that have arrived.
func (b *HTTPBackend) Requests() int64 { return b.requests.Load() }

// Last returns the request that arrived last.
func (b *HTTPBackend) Last() Echo {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Set changes the behaviour for requests that arrive from now on.
func (b *HTTPBackend) Set(behave Behaviour) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.behave, b.failed = behave, 0
}

// Close stops the backend at once, cutting its connections.
func (b *HTTPBackend) Close() { _ = b.server.Close() }

// next notes one more request and returns how to answer it.
func (b *HTTPBackend) next(asked Echo) Behaviour {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = asked
	behave := b.behave
	if behave.Failures > 0 && b.failed >= behave.Failures {
		behave.Status, behave.Abort = http.StatusOK, false
	}
	b.failed++
	if behave.Status == 0 {
		behave.Status = http.StatusOK
	}
	return behave
}

// serve answers one request.
func (b *HTTPBackend) serve(w http.ResponseWriter, r *http.Request) {
	b.requests.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	asked := Echo{
		Backend: b.name, Proto: r.Proto, Method: r.Method, Host: r.Host, Path: r.URL.RequestURI(), Headers: r.Header,
		Body: string(body),
	}
	behave := b.next(asked)
	if pause(r.Context(), behave.Delay) != nil {
		return
	}
	if behave.Abort {
		panic(http.ErrAbortHandler)
	}
	for name, values := range behave.Header {
		w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(behave.Status)
	// A client that has gone is not the backend's problem.
	_ = json.NewEncoder(w).Encode(asked)
}

// pause waits that long or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// portOf returns the port of an address that a listener gave; 0 cannot be one.
func portOf(address string) int {
	a, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return 0
	}
	return a.Port
}
