package harness

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// logTail is how much of a dead process's log goes into the error that reports it.
const logTail = 2 << 10

// command is how to start a process.
type command struct {
	path string
	args []string
	log  string // file that its output is appended to

	network *Network          // nil: the process's own
	files   map[string][]byte // that only it sees below /etc
}

// process is a running child. Its fields are fixed at construction; done is closed when the child has been waited for.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  atomic.Pointer[error]
}

// start runs the command as a child that the kernel kills when we die, even by SIGKILL or by a test's timeout.
func (c command) start() (*process, error) {
	name := filepath.Base(c.path)
	log, err := os.OpenFile(c.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	// The child has its own descriptor of the log once it runs.
	defer log.Close()
	cmd := exec.Command(c.path, c.args...)
	cmd.Stdout, cmd.Stderr = log, log
	// A process group of its own keeps the terminal's interrupt from the child, so that its owner ends it in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	p := &process{name: name, cmd: cmd, log: c.log, done: make(chan struct{})}
	started := make(chan error)
	go p.run(c, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	return p, nil
}

// run starts the child and waits for it on one thread, since the kernel takes the end of the thread that started a
// child for the death of its parent.
func (p *process) run(c command, started chan<- error) {
	entered := false
	err := c.network.Do(func() error {
		entered = true
		runtime.LockOSThread()
		if len(c.files) == 0 { // else the thread ends with its view of files
			defer runtime.UnlockOSThread()
		}
		err := c.showFiles()
		if err == nil {
			err = p.cmd.Start()
		}
		started <- err
		if err != nil {
			return nil
		}
		err = p.cmd.Wait()
		p.err.Store(&err)
		close(p.done)
		return nil
	})
	if !entered {
		started <- err
	}
}

// exited returns an error that holds the end of the log if the child has ended, else nil.
func (p *process) exited() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	state := "status 0"
	if err := *p.err.Load(); err != nil {
		state = err.Error()
	}
	text, err := os.ReadFile(p.log)
	if err != nil {
		text = []byte(err.Error())
	}
	return fmt.Errorf("%s ended (%s); its log ends:\n%s", p.name, state, text[max(0, len(text)-logTail):])
}

// ready polls the probe until it succeeds, the child ends or ctx does.
func (p *process) ready(ctx context.Context, probe func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-p.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := Poll(ctx, probe)
	if dead := p.exited(); dead != nil {
		return dead
	}
	if err != nil {
		return fmt.Errorf("%s is not ready: %w", p.name, err)
	}
	return nil
}

// signal sends a signal to a child that may have ended.
func (p *process) signal(s os.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to %s: %w", s, p.name, err)
	}
	return nil
}

// kill ends the child at once and waits for it.
func (p *process) kill() error {
	err := p.signal(os.Kill)
	<-p.done
	return err
}

// terminate asks the child to end and kills it if it has not within the grace.
func (p *process) terminate(grace time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not end within %v of SIGTERM", p.name, grace), p.kill())
	}
}

// readLog returns the lines of a log file that contain the text; an empty text selects all.
func readLog(path, contains string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, contains) {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines, nil
}
