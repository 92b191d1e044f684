package envoy

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// relay stands between proxies and a control plane, counts the bytes sent to the proxies, and can cut the connections.
type relay struct {
	listener net.Listener
	to       string
	sent     atomic.Int64

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l, to: to, conns: map[net.Conn]struct{}{}}
	go r.accept()
	t.Cleanup(func() { _ = l.Close(); r.cut() })
	return r
}

func (r *relay) address() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", r.to)
		if err != nil {
			_ = c.Close()
			continue
		}
		r.mu.Lock()
		r.conns[c], r.conns[s] = struct{}{}, struct{}{}
		r.mu.Unlock()
		go r.carry(s, c, nil)
		go r.carry(c, s, &r.sent)
	}
}

// carry copies until either side ends, and ends both.
func (r *relay) carry(to, from net.Conn, count *atomic.Int64) {
	var w io.Writer = to
	if count != nil {
		w = counter{to, count}
	}
	_, _ = io.Copy(w, from)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		_ = c.Close()
		delete(r.conns, c)
	}
}

// cut ends every connection; clients may connect again.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		_ = c.Close()
	}
}

// counter counts the bytes that pass.
type counter struct {
	io.Writer
	n *atomic.Int64
}

// Write implements io.Writer.
func (c counter) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n.Add(int64(n))
	return n, err
}
