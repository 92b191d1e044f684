package harness

import (
	"fmt"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// Port is a loopback TCP port that the kernel chose and that stays reserved until Close: the kernel gives it to nobody
// who asks for any port, while a server that is told the number can listen on it, also again after it was restarted.
// It does so by a bound socket that never listens, with the two options that let another socket bind beside it.
type Port struct {
	fd     int
	number int
}

// ReservePort reserves a port on 127.0.0.1.
func ReservePort() (*Port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	p := &Port{fd: fd}
	if err := p.bind(); err != nil {
		p.Close()
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	return p, nil
}

// bind chooses the port.
func (p *Port) bind() error {
	for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
		if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, option, 1); err != nil {
			return err
		}
	}
	if err := unix.Bind(p.fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return err
	}
	name, err := unix.Getsockname(p.fd)
	if err != nil {
		return err
	}
	addr, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return fmt.Errorf("unexpected socket address %T", name)
	}
	p.number = addr.Port
	return nil
}

// Number is the port's number.
func (p *Port) Number() int { return p.number }

// Address is the port's address, host:port.
func (p *Port) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.number)) }

// Close gives the port back. It must be called once only.
func (p *Port) Close() { _ = unix.Close(p.fd) }

// NewPort reserves a port until the test ends.
func NewPort(t testing.TB) *Port {
	t.Helper()
	p, err := ReservePort()
	must(t, err)
	t.Cleanup(p.Close)
	return p
}
