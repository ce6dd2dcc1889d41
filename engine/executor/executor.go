// Package executor is the process beside a device: it runs the passes that the scheduler asks for,
// step by step, loads and drops weights between them, and sees a Runner instead of models.
package executor

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/internal/osthread"
)

// Config names an executor.
type Config struct {
	Name      string        // stable over restarts, e.g. "cpu-0"
	Heartbeat time.Duration // between two Hellos; the scheduler gives an executor up after several
	Log       *zap.Logger
	// State is how the executor is, for monitoring; called from several goroutines, may be nil.
	State func() *wire.ExecutorState
	// Alive hears from the loop that runs passes that it goes on: between steps, and at each heartbeat
	// without work. It is quick; may be nil.
	Alive func()
	// Changes are made to the runner on its thread, between two steps, and the scheduler is told what the
	// runner's Info is then; may be nil. An error is logged, and ends the executor if the device is lost.
	Changes <-chan func() error
}

// conn is the connection to the scheduler. Recv returns *wire.Lost when it broke.
type conn interface {
	Recv(ctx context.Context) (wire.Message, error)
	Send(m wire.Message) error
}

// executor is the actor: everything but what hello needs is owned by loop.
type executor struct {
	// set once
	cfg    Config
	conn   conn
	runner Runner // nil while it is being opened

	greeting atomic.Pointer[wire.Hello] // what heartbeats say, beside State

	info  *wire.ExecutorInfo  // as the scheduler was told last; never changed, but replaced
	steps map[string]*longest // of models

	scheduler uint64 // the scheduler's epoch; 0 = not welcomed under this executor's own epoch
	// settled says that the scheduler has answered a Hello said after its first Welcome. Until then it
	// would take this process's death for that change of epoch which an executor makes when it meets a
	// new scheduler, and not blame the pass; so no pass is begun before, and nothing loaded.
	settled bool

	passes
	preparing preparing
	loads     []*load       // in the order in which they came
	owed      time.Duration // of steps, before the next piece of weights is loaded
}

// Run opens the runner and serves the scheduler until ctx ends (nil, or its cause) or the connection
// or the runner fails. Everything that touches the runner happens on one locked OS thread. A runner
// that has lost its device is not closed: the process must end, and has nothing to free there.
func Run(ctx context.Context, cfg Config, c conn, open func() (Runner, error)) error {
	return osthread.Do(func() error {
		e := &executor{cfg: cfg, conn: c, steps: map[string]*longest{}, passes: passes{paused: map[wire.PassID]*task{}}, preparing: newPreparing()}
		e.greeting.Store(e.newGreeting())
		if err := e.open(ctx, open); err != nil {
			return err
		}
		err := e.serve(ctx)
		e.stopPreparing()
		if DeviceLost(err) {
			return err
		}
		e.dropAll()
		e.runner.Close()
		return err
	})
}

// open opens the runner, and meanwhile tells the scheduler how far it is.
func (e *executor) open(ctx context.Context, open func() (Runner, error)) error {
	opening, opened := context.WithCancel(ctx)
	var heart sync.WaitGroup
	if e.cfg.State != nil {
		heart.Go(func() { e.sendHeartbeats(opening) }) // ends with opening
	}
	runner, err := open()
	opened()
	heart.Wait()
	if err == nil {
		e.runner = runner
		e.readRunnerInfo()
		e.setGreeting(true)
	}
	return err
}

// DeviceLost says that err ends the runner that it came from, as Runner explains.
func DeviceLost(err error) bool {
	var lost interface{ DeviceLost() bool }
	return errors.As(err, &lost) && lost.DeviceLost()
}

func (e *executor) serve(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	mailbox := make(chan wire.Message, 64)
	var group sync.WaitGroup
	group.Go(func() { e.receiveMessages(ctx, stop, mailbox) }) // ends with ctx
	group.Go(func() { e.sendHeartbeats(ctx) })                 // ends with ctx
	err := e.runLoop(ctx, mailbox)
	cause := context.Cause(ctx)
	stop(nil)
	group.Wait()
	if err != nil || errors.Is(cause, context.Canceled) {
		return err
	}
	return cause
}

// receiveMessages fills the mailbox. It is apart from the loop, since a connection notices that it breaks and
// comes back only while somebody receives, and a step may take longer than both.
func (e *executor) receiveMessages(ctx context.Context, stop context.CancelCauseFunc, mailbox chan<- wire.Message) {
	for {
		m, err := e.conn.Recv(ctx)
		if err != nil {
			stop(err)
			return
		}
		select {
		case mailbox <- m:
		case <-ctx.Done():
			return
		}
	}
}

// runLoop looks at the mailbox before every step, until ctx ends or the executor cannot go on.
func (e *executor) runLoop(ctx context.Context, mailbox <-chan wire.Message) error {
	tick := time.NewTicker(e.cfg.Heartbeat)
	defer tick.Stop()
	for {
		e.reportAlive()
		var err error
		if e.hasWork() {
			select {
			case m := <-mailbox:
				err = e.handleMessage(m)
			case change := <-e.cfg.Changes:
				err = e.changeRunner(change)
			case failed := <-e.preparing.ended:
				e.finishPreparing(failed)
			case <-ctx.Done():
				return nil
			default:
				err = e.work()
			}
		} else {
			select {
			case m := <-mailbox:
				err = e.handleMessage(m)
			case change := <-e.cfg.Changes:
				err = e.changeRunner(change)
			case failed := <-e.preparing.ended:
				e.finishPreparing(failed)
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
}

func (e *executor) reportAlive() {
	if e.cfg.Alive != nil {
		e.cfg.Alive()
	}
}

// hasWork says that there is work to do.
func (e *executor) hasWork() bool {
	return e.settled && (e.hasRunnable() || len(e.nested)+len(e.loads)+len(e.lowest) > 0)
}

// work does what is next: a nested pass, a piece of weights or a step.
func (e *executor) work() error {
	switch {
	case len(e.nested) > 0:
		return e.runNested()
	case len(e.loads) > 0 && (e.owed <= 0 || !e.hasRunnable()):
		return e.loadPiece()
	}
	return e.stepPass()
}

// handleMessage returns an error when the executor cannot go on.
func (e *executor) handleMessage(m wire.Message) error {
	switch m := m.(type) {
	case *wire.Welcome:
		e.noteWelcome(m.Epoch)
	case *wire.Lost:
		e.forget("the connection to the scheduler broke")
	case *wire.Run:
		e.acceptRun(m)
		return e.savePages(m)
	case *wire.Pause:
		e.pausePass(m.Pass)
	case *wire.Resume:
		e.resumePass(m.Pass)
	case *wire.Abort:
		e.abortPass(m.Pass)
	case *wire.Load:
		e.loads = append(e.loads, &load{Load: m})
	case *wire.Drop:
		e.dropWeights(m.Weights)
	default:
		e.cfg.Log.Warn("message not meant for an executor", zap.String("type", fmt.Sprintf("%T", m)))
	}
	return nil
}

// savePages makes the saves of a run. The scheduler takes them for done from then on, whatever becomes of the
// run, so that without them this executor's pages are not what it knows of them.
func (e *executor) savePages(run *wire.Run) error {
	if len(run.Saves) == 0 {
		return nil
	}
	saver, ok := e.runner.(Saver)
	if !ok {
		return fmt.Errorf("executor %s is told to save %d pages and has no host memory for them", e.cfg.Name, len(run.Saves))
	}
	if err := saver.Save(run.Model, run.Saves); err != nil {
		return fmt.Errorf("executor %s: save %d pages to host memory: %w", e.cfg.Name, len(run.Saves), err)
	}
	return nil
}

// changeRunner makes a change to the runner and tells the scheduler what has come of it.
func (e *executor) changeRunner(change func() error) error {
	err := e.guardPanic(change)
	if DeviceLost(err) {
		return err
	}
	if err != nil {
		e.cfg.Log.Error("the runner was not changed as it should", zap.Error(err))
	}
	e.tell()
	return nil
}

// guardPanic calls f and turns a panic into an error, so that a defect costs one pass or load and not the device.
func (e *executor) guardPanic(f func() error, about ...zap.Field) (err error) {
	defer func() {
		if p := recover(); p != nil {
			about = append(about, zap.Any("panic", p), zap.ByteString("stack", debug.Stack()))
			e.cfg.Log.Error("panic in the runner", about...)
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}
