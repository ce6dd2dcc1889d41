// Package supervise keeps child processes of this program alive, and sees to it that none outlives
// its parent.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/osthread"
)

// lifelineFD is the descriptor a child watches; it reads end of file when its parent is gone.
const lifelineFD = 3

// lifelineEnv tells a child of its lifeline.
const lifelineEnv = "PREFILLONLY_CHILD_LIFELINE"

// Child is one process to keep alive.
type Child struct {
	Name  string
	Args  []string // of this program
	Env   []string // all of it
	Files []*os.File
	Grace time.Duration // from SIGTERM to SIGKILL
	// Permanent tells the exit codes after which a restart would not help; first says that no process
	// of the child has been there before.
	Permanent func(code int, first bool) bool
	Slow      func(code int) bool // exit codes after which restarts may be far apart; may be nil
	Log       *zap.Logger
	// Started is called with the id of each new process; may be nil.
	Started func(pid int)
}

// FileFD is the descriptor under which a child finds Files[i].
func FileFD(i int) int { return lifelineFD + 1 + i }

// ExitError says that a child ended for good.
type ExitError struct {
	Name  string
	Code  int // 1 when a signal ended it
	How   string
	First bool // no process of the child has been there before
}

func (e *ExitError) Error() string { return fmt.Sprintf("%s ended: %s", e.Name, e.How) }

// Run starts the child and starts it again whenever it ends, until stop is done: then it sends
// SIGTERM and waits. When kill is done, or Grace has passed, it sends SIGKILL. It returns nil when
// the child ended cleanly after stop, and an *ExitError when it ended otherwise, cannot be started,
// or dies too often.
//
// The kernel ties a child to the thread that started it (PR_SET_PDEATHSIG), so Run keeps one OS
// thread for itself.
func (c *Child) Run(stop, kill context.Context) error {
	return osthread.Do(func() error { return c.keep(stop, kill) })
}

func (c *Child) keep(stop, kill context.Context) error {
	pace := newPace()
	for first := true; ; first = false {
		born := time.Now()
		state, err := c.once(stop, kill)
		lived := time.Since(born)
		if err != nil {
			return &ExitError{Name: c.Name, Code: 1, How: err.Error()}
		}
		ended := &ExitError{Name: c.Name, Code: code(state), How: state.String(), First: first}
		if stop.Err() != nil {
			if state.Success() || signaled(state, syscall.SIGTERM) {
				return nil
			}
			return ended
		}
		if c.Permanent(ended.Code, first) {
			return ended
		}
		delay, ok := pace.next(lived, c.Slow != nil && c.Slow(ended.Code))
		if !ok {
			ended.How = fmt.Sprintf("it died %d times in a row soon after its start, the last time by %s", maxShortLives, ended.How)
			return ended
		}
		c.Log.Warn("process ended and is started again", zap.String("process", c.Name), zap.String("how", ended.How),
			zap.Duration("lived", lived), zap.Duration("delay", delay))
		select {
		case <-time.After(delay):
		case <-stop.Done():
			return nil
		}
	}
}

// once runs one process to its end.
func (c *Child) once(stop, kill context.Context) (*os.ProcessState, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close() // its end is the parent's last sign of life
	cmd := &exec.Cmd{
		Path:       "/proc/self/exe",
		Args:       append([]string{os.Args[0]}, c.Args...),
		Env:        append(c.Env, lifelineEnv+"="+strconv.Itoa(lifelineFD)),
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		ExtraFiles: append([]*os.File{r}, c.Files...),
		// A group of its own keeps a terminal's Ctrl-C for the parent, which stops the children in order.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	err = cmd.Start()
	r.Close()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if c.Started != nil {
		c.Started(cmd.Process.Pid)
	}
	ended := make(chan struct{})
	signaled := make(chan struct{})
	go func() { // ends with the process
		defer close(signaled)
		c.end(cmd.Process, stop, kill, ended)
	}()
	err = cmd.Wait()
	close(ended)
	<-signaled
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("wait: %w", err)
	}
	return cmd.ProcessState, nil
}

// end signals the process as stop and kill ask.
func (c *Child) end(p *os.Process, stop, kill context.Context, ended <-chan struct{}) {
	select {
	case <-stop.Done():
		_ = p.Signal(syscall.SIGTERM) // it may have ended
	case <-kill.Done():
	case <-ended:
		return
	}
	select {
	case <-time.After(c.Grace):
		c.Log.Warn("process does not stop and is killed", zap.String("process", c.Name), zap.Duration("after", c.Grace))
	case <-kill.Done():
	case <-ended:
		return
	}
	_ = p.Kill()
}

func code(s *os.ProcessState) int {
	if c := s.ExitCode(); c >= 0 {
		return c
	}
	return 1
}

func signaled(s *os.ProcessState, sig syscall.Signal) bool {
	ws, ok := s.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == sig
}

// Watch makes a child end when its parent is gone, however the parent went. In a process that was
// not started by Child it does nothing. The goroutine lives as long as the process.
func Watch() {
	fd, err := strconv.Atoi(os.Getenv(lifelineEnv))
	if err != nil {
		return
	}
	syscall.CloseOnExec(fd)
	lifeline := os.NewFile(uintptr(fd), "lifeline")
	go func() {
		_, _ = lifeline.Read(make([]byte, 1)) // nothing is ever written
		os.Exit(1)
	}()
}
