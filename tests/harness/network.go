package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Network is a network namespace of its own, in which every address is local: what runs in it may listen wherever its
// configuration says, and meets nobody else.
type Network struct{ file *os.File }

// NewNetwork returns a network that lasts as long as the test, or ErrNoNetworks where the process may not make one.
func NewNetwork(t testing.TB) (*Network, error) {
	t.Helper()
	var n *Network
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("%w: %w", ErrNoNetworks, err)
		}
		for _, args := range [][]string{
			{"link", "set", "lo", "up"}, {"route", "add", "local", "0.0.0.0/0", "dev", "lo"}, {"-6", "route", "add", "local", "::/0", "dev", "lo"},
		} {
			if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
				return fmt.Errorf("setting up a network: ip %v: %w: %s", args, err, out)
			}
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		n = &Network{file}
		return err
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = n.file.Close() })
	return n, nil
}

// ErrNoNetworks says that this process may not make networks and other namespaces.
var ErrNoNetworks = errors.New("making a namespace")

// Do runs a function on a thread that is in the network: sockets and processes that it makes belong there. A nil
// Network is the process's own.
func (n *Network) Do(f func() error) error {
	if n == nil {
		return f()
	}
	return onThread(func() error {
		if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("entering a network: %w", err)
		}
		return f()
	})
}

// DialContext connects as a process in the network does.
func (n *Network) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.Do(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// onThread runs a function on a thread that ends with it, so that nobody else comes to run in a network by chance.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}

// showFiles lays the command's files over /etc for the calling thread and the processes that it starts.
func (c command) showFiles() error {
	if len(c.files) == 0 {
		return nil
	}
	upper, work := filepath.Join(filepath.Dir(c.log), "etc"), filepath.Join(filepath.Dir(c.log), "etc.work")
	for path, content := range c.files {
		inside, ok := strings.CutPrefix(path, "/etc/")
		if !ok {
			return fmt.Errorf("showing %s: it is not below /etc", path)
		}
		file := filepath.Join(upper, inside)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.MkdirAll(work, 0o700)); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("%w: %w", ErrNoNetworks, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("overlay", "/etc", "overlay", 0, "lowerdir=/etc,upperdir="+upper+",workdir="+work); err != nil {
		return fmt.Errorf("laying files over /etc: %w", err)
	}
	return nil
}
