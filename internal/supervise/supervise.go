// Package supervise keeps child processes of this program alive and at work: one that dies or falls
// silent is started again, and none outlives its parent.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/internal/osthread"
)

// The descriptors of a child: the one it watches, which reads end of file when its parent is gone, and
// the one it gives its signs of life to.
const (
	lifelineFD = 3 + iota
	signFD
)

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
	// Silence is how long a process may give no sign of life (see Say) before it is killed and started
	// again; 0 is for ever. One that Computes is given ten times as long while it uses the processor or
	// reads files, as a long computation does and a deadlock does not.
	Silence  time.Duration
	Computes bool
	Log      *zap.Logger
	// Said hears signs of life, of several at once the last; may be nil.
	Said func(Sign)
	// Started is called with the id of each new process; may be nil.
	Started func(pid int)

	stuck  atomic.Bool // the process was killed for its silence, and is not gone yet
	hangup hangup
}

// FileFD is the descriptor under which a child finds Files[i].
func FileFD(i int) int { return signFD + 1 + i }

// ExitError says that a child ended for good.
type ExitError struct {
	Name  string
	Code  int // 1 when a signal ended it
	How   string
	First bool // no process of the child has been there before
}

func (e *ExitError) Error() string { return fmt.Sprintf("%s ended: %s", e.Name, e.How) }

// Run starts the child and starts it again whenever it ends or falls silent, until stop is done: then it
// sends SIGTERM and waits. When kill is done, or Grace has passed, it sends SIGKILL. It returns nil when
// the child ended cleanly after stop, and an *ExitError when it ended otherwise, cannot be started,
// or dies too often.
//
// The kernel ties a child to the thread that started it (PR_SET_PDEATHSIG), so Run keeps one OS
// thread for itself.
func (c *Child) Run(stop, kill context.Context) error {
	return osthread.Do(func() error { return c.restartUntilStopped(stop, kill) })
}

func (c *Child) restartUntilStopped(stop, kill context.Context) error {
	pace := newPace()
	for first := true; ; first = false {
		born := time.Now()
		state, err := c.runOnce(stop, kill)
		lived := time.Since(born)
		if err != nil {
			if stop.Err() != nil {
				return nil // what it would need may be gone already
			}
			return &ExitError{Name: c.Name, Code: 1, How: err.Error()}
		}
		ended := &ExitError{Name: c.Name, Code: exitCode(state), How: state.String(), First: first}
		if stop.Err() != nil || kill.Err() != nil {
			if state.Success() || isKilledBy(state, syscall.SIGTERM) {
				return nil
			}
			return ended
		}
		if c.Permanent(ended.Code, first) {
			return ended
		}
		delay, ok := pace.nextDelay(lived, c.Slow != nil && c.Slow(ended.Code))
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

// runOnce runs one process to its end.
func (c *Child) runOnce(stop, kill context.Context) (*os.ProcessState, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer w.Close() // its end is the parent's last sign of life
	signs, mouth, err := os.Pipe()
	if err != nil {
		r.Close()
		return nil, err
	}
	defer signs.Close()
	cmd := &exec.Cmd{
		Path:       "/proc/self/exe",
		Args:       append([]string{os.Args[0]}, c.Args...),
		Env:        append(c.Env, lifelineEnv+"="+strconv.Itoa(lifelineFD)),
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		ExtraFiles: append([]*os.File{r, mouth}, c.Files...),
		// A group of its own keeps a terminal's Ctrl-C for the parent, which stops the children in order.
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	}
	err = cmd.Start()
	r.Close()
	mouth.Close()
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	if c.Started != nil {
		c.Started(cmd.Process.Pid)
	}
	c.hangup.beginReload(cmd.Process)
	defer c.hangup.forgetProcess()
	ended := make(chan struct{})
	v := &vigil{}
	var group sync.WaitGroup // ends with the process
	group.Go(func() { c.listenSigns(v, signs) })
	group.Go(func() { c.watchSilence(v, cmd.Process, stop, ended) })
	group.Go(func() { c.endProcess(cmd.Process, stop, kill, ended) })
	err = cmd.Wait()
	close(ended)
	signs.Close()
	group.Wait()
	c.stuck.Store(false)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("wait: %w", err)
	}
	return cmd.ProcessState, nil
}

// endProcess signals the process as stop and kill ask.
func (c *Child) endProcess(p *os.Process, stop, kill context.Context, ended <-chan struct{}) {
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

func exitCode(s *os.ProcessState) int {
	if c := s.ExitCode(); c >= 0 {
		return c
	}
	return 1
}

func isKilledBy(s *os.ProcessState, sig syscall.Signal) bool {
	ws, ok := s.Sys().(syscall.WaitStatus)
	return ok && ws.Signaled() && ws.Signal() == sig
}
