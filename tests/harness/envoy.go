package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// EnvoyOptions describes an Envoy to start.
type EnvoyOptions struct {
	Tools       Tools          // zero means FindTools
	NodeID      string         // empty means "test"
	NodeCluster string         // empty means "test"
	Metadata    map[string]any // of the node

	// XDSAddress is the host:port (an IP address) of the control plane's plaintext gRPC; empty means none.
	XDSAddress  string
	XDSProtocol XDSProtocol       // empty means DeltaXDS
	XDSHeaders  map[string]string // initial metadata of the ADS stream

	// Bootstrap is YAML merged into the bootstrap: objects key by key, lists appended, anything else replaced.
	Bootstrap string

	Concurrency  int           // worker threads; 0 means 1
	LogLevel     string        // empty means warning
	Args         []string      // more arguments
	ReadyTimeout time.Duration // 0 means 30 s, which exceeds Envoy's wait for its first configuration
	// ServingOnly returns from the constructor as soon as the admin port answers, configured or not.
	ServingOnly bool
	Dir         string // for its files; empty means a temporary one that Close removes
	// Network is where it runs; nil means the process's own.
	Network *Network
	// Files are what only it sees below /etc, by their whole paths.
	Files map[string][]byte
}

// withDefaults fills what was left out.
func (o EnvoyOptions) withDefaults() EnvoyOptions {
	o.NodeID = cmp.Or(o.NodeID, "test")
	o.NodeCluster = cmp.Or(o.NodeCluster, "test")
	o.XDSProtocol = cmp.Or(o.XDSProtocol, DeltaXDS)
	o.Concurrency = cmp.Or(o.Concurrency, 1)
	o.LogLevel = cmp.Or(o.LogLevel, "warning")
	o.ReadyTimeout = cmp.Or(o.ReadyTimeout, 30*time.Second)
	return o
}

// Envoy is a running Envoy. It is for use by one goroutine, except for the methods that ask the admin port.
type Envoy struct {
	opts    EnvoyOptions // fixed at construction, as the next three
	dir     string
	ownsDir bool
	command command
	client  http.Client

	process *process
	admin   string
}

// StartEnvoy starts an Envoy and returns when it is ready.
func StartEnvoy(ctx context.Context, opts EnvoyOptions) (*Envoy, error) {
	e, err := prepareEnvoy(opts.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("starting envoy: %w", err)
	}
	if err := e.launch(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting envoy: %w", err), e.Close())
	}
	return e, nil
}

// NewEnvoy starts an Envoy that lives as long as the test. If the test fails, the end of its log is part of the output.
func NewEnvoy(t testing.TB, opts EnvoyOptions) *Envoy {
	t.Helper()
	e, err := StartEnvoy(context.Background(), opts)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			if lines, err := e.Log(""); err == nil {
				t.Logf("log of envoy %s ends:\n%s", e.opts.NodeID, strings.Join(lines[max(0, len(lines)-30):], "\n"))
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// ValidateEnvoy tells why an Envoy would not start with a bootstrap.
func ValidateEnvoy(t testing.TB, bootstrap []byte) error {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bootstrap.json")
	if err := os.WriteFile(file, bootstrap, 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(t.Context(), NeedTool(t, EnvoyTool), "--mode", "validate", "-c", file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out[max(0, len(out)-logTail):])
	}
	return nil
}

// prepareEnvoy writes the bootstrap.
func prepareEnvoy(opts EnvoyOptions) (*Envoy, error) {
	tools, err := opts.Tools.orFound()
	if err != nil {
		return nil, err
	}
	path, err := tools.Path(EnvoyTool)
	if err != nil {
		return nil, err
	}
	config, err := bootstrap(opts)
	if err != nil {
		return nil, err
	}
	e := &Envoy{opts: opts, dir: opts.Dir, ownsDir: opts.Dir == "", client: http.Client{Timeout: 20 * time.Second}}
	// One admin connection at a time is all that is needed, and none outlives a test.
	e.client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: opts.Network.DialContext}
	if e.ownsDir {
		if e.dir, err = os.MkdirTemp("", "mizzen-envoy-"); err != nil {
			return nil, err
		}
	}
	file := filepath.Join(e.dir, "bootstrap.json")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return nil, err
	}
	e.command = command{path: path, network: opts.Network, files: opts.Files, log: filepath.Join(e.dir, "envoy.log"), args: append([]string{
		"--config-path", file, "--admin-address-path", e.adminFile(), "--disable-hot-restart",
		"--concurrency", strconv.Itoa(opts.Concurrency), "--log-level", opts.LogLevel,
		"--log-format", "[%Y-%m-%d %T.%e][%l][%n] %v", "--log-format-escaped",
	}, opts.Args...)}
	return e, nil
}

// adminFile is where Envoy writes the address of its admin port.
func (e *Envoy) adminFile() string { return filepath.Join(e.dir, "admin.txt") }

// launch starts the process and waits until it is ready.
func (e *Envoy) launch(ctx context.Context) error {
	if err := os.Remove(e.adminFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	var err error
	if e.process, err = e.command.start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, e.opts.ReadyTimeout)
	defer cancel()
	if err := e.process.ready(ctx, e.readAdmin); err != nil {
		return err
	}
	if e.opts.ServingOnly {
		return nil
	}
	return e.process.ready(ctx, e.Ready)
}

// readAdmin learns the admin port's address once Envoy has written it.
func (e *Envoy) readAdmin(context.Context) error {
	text, err := os.ReadFile(e.adminFile())
	if err != nil {
		return err
	}
	if !strings.Contains(string(text), ":") {
		return errors.New("the file of the admin address is not written yet")
	}
	e.admin = "http://" + strings.TrimSpace(string(text))
	return nil
}

// Admin is the URL of the admin port, without a slash at the end.
func (e *Envoy) Admin() string { return e.admin }

// Pid is the process id.
func (e *Envoy) Pid() int { return e.process.cmd.Process.Pid }

// Ready returns nil when Envoy serves: it has its first configuration or has given up waiting for it.
func (e *Envoy) Ready(ctx context.Context) error {
	_, err := e.AdminGet(ctx, "/ready")
	return err
}

// Exited returns an error with the end of the log if the process has ended.
func (e *Envoy) Exited() error { return e.process.exited() }

// Log returns the log's lines that contain the text, of all runs since the first start.
func (e *Envoy) Log(contains string) ([]string, error) { return readLog(e.command.log, contains) }

// Kill ends Envoy by SIGKILL.
func (e *Envoy) Kill() error { return e.process.kill() }

// Stop ends Envoy by SIGTERM.
func (e *Envoy) Stop() error { return e.process.terminate(10 * time.Second) }

// Restart ends Envoy by SIGKILL, starts it again with the same bootstrap and waits until it is ready. The admin port
// is another one afterwards.
func (e *Envoy) Restart(ctx context.Context) error {
	if err := e.Kill(); err != nil {
		return err
	}
	return e.launch(ctx)
}

// Pause stops the process as if the machine had stalled; Resume lets it go on.
func (e *Envoy) Pause() error { return e.process.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (e *Envoy) Resume() error { return e.process.signal(syscall.SIGCONT) }

// Close ends Envoy and removes its files. It may be called again.
func (e *Envoy) Close() error {
	var err error
	if e.process != nil {
		err = e.process.kill()
	}
	if e.ownsDir {
		err = errors.Join(err, os.RemoveAll(e.dir))
	}
	return err
}

// AdminGet returns what the admin port answers to a GET; a status other than 200 is an error.
func (e *Envoy) AdminGet(ctx context.Context, path string) ([]byte, error) {
	return ask(ctx, &e.client, http.MethodGet, e.admin+path)
}

// AdminPost is for the admin port's commands.
func (e *Envoy) AdminPost(ctx context.Context, path string) ([]byte, error) {
	return ask(ctx, &e.client, http.MethodPost, e.admin+path)
}
