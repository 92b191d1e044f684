package harness

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
)

// TCPEcho is a server that sends back what it receives, after a greeting line with its name if it has one.
type TCPEcho struct {
	name     string
	listener net.Listener

	mu    sync.Mutex // guards conns; a nil map means closed
	conns map[net.Conn]struct{}
}

// StartTCPEcho starts an echo server on host:port; an empty address means any loopback port.
func StartTCPEcho(name, address string) (*TCPEcho, error) {
	listener, err := listen(address)
	if err != nil {
		return nil, fmt.Errorf("starting the TCP echo %s: %w", name, err)
	}
	e := &TCPEcho{name: name, listener: listener, conns: map[net.Conn]struct{}{}}
	go e.accept()
	return e, nil
}

// NewTCPEcho starts an echo server that lives as long as the test.
func NewTCPEcho(t testing.TB, name, address string) *TCPEcho {
	t.Helper()
	e, err := StartTCPEcho(name, address)
	must(t, err)
	t.Cleanup(e.Close)
	return e
}

// Address is host:port.
func (e *TCPEcho) Address() string { return e.listener.Addr().String() }

// Port is the number of the port.
func (e *TCPEcho) Port() int { return portOf(e.Address()) }

// Close stops the server and cuts its connections. It may be called again.
func (e *TCPEcho) Close() {
	_ = e.listener.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.conns {
		_ = c.Close()
	}
	e.conns = nil
}

// accept serves connections until the listener is closed.
func (e *TCPEcho) accept() {
	for {
		conn, err := e.listener.Accept()
		if err != nil {
			return
		}
		if e.add(conn) {
			go e.echo(conn)
		}
	}
}

// add notes a connection, or closes it if the server has been closed.
func (e *TCPEcho) add(conn net.Conn) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.conns == nil {
		_ = conn.Close()
		return false
	}
	e.conns[conn] = struct{}{}
	return true
}

// echo serves one connection until either side ends it.
func (e *TCPEcho) echo(conn net.Conn) {
	if e.name != "" {
		_, _ = io.WriteString(conn, e.name+"\n")
	}
	_, _ = io.Copy(conn, conn)
	_ = conn.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.conns, conn)
}
