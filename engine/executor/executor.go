// Package executor is the process beside a device: it runs the passes that the scheduler asks for,
// layer by layer, and sees a Runner instead of a model.
package executor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
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
	// Alive hears from the loop that runs passes that it goes on: between layers, and at each heartbeat
	// without work. It is quick; may be nil.
	Alive func()
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
	runner Runner // nil while it is loading
	info   wire.ExecutorInfo

	epoch atomic.Uint64 // of this executor; read by the heartbeat too

	scheduler uint64 // the scheduler's epoch; 0 = not welcomed under this executor's own epoch
	// settled says that the scheduler has answered a Hello said after its first Welcome. Until then it
	// would take this process's death for that change of epoch which an executor makes when it meets a
	// new scheduler, and not blame the pass; so no pass is begun before.
	settled bool
	current *task
	ready   []*task // begun or not, in the order of their Run or Resume
	paused  map[wire.PassID]*task
}

// task is one pass on its way.
type task struct {
	run  *wire.Run
	pass Pass          // nil until it has begun
	took time.Duration // inside the runner so far
}

// Run opens the runner and serves the scheduler until ctx ends (nil, or its cause) or the connection
// or the runner fails. Everything that touches the runner happens on one locked OS thread. A runner
// that has lost its device is not closed: the process must end, and has nothing to free there.
func Run(ctx context.Context, cfg Config, c conn, open func() (Runner, error)) error {
	return osthread.Do(func() error {
		e := &executor{cfg: cfg, conn: c, paused: map[wire.PassID]*task{}}
		e.epoch.Store(rand.Uint64())
		if err := e.load(ctx, open); err != nil {
			return err
		}
		err := e.serve(ctx)
		if DeviceLost(err) {
			return err
		}
		e.dropAll()
		e.runner.Close()
		return err
	})
}

// load opens the runner, and meanwhile tells the scheduler how far it is.
func (e *executor) load(ctx context.Context, open func() (Runner, error)) error {
	loading, loaded := context.WithCancel(ctx)
	var heart sync.WaitGroup
	if e.cfg.State != nil {
		heart.Go(func() { e.beat(loading) }) // ends with loading
	}
	runner, err := open()
	loaded()
	heart.Wait()
	if err == nil {
		e.runner, e.info = runner, runner.Info()
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
	group.Go(func() { e.receive(ctx, stop, mailbox) }) // ends with ctx
	group.Go(func() { e.beat(ctx) })                   // ends with ctx
	err := e.loop(ctx, mailbox)
	cause := context.Cause(ctx)
	stop(nil)
	group.Wait()
	if err != nil || errors.Is(cause, context.Canceled) {
		return err
	}
	return cause
}

// receive fills the mailbox. It is apart from the loop, since a connection notices that it breaks and
// comes back only while somebody receives, and a layer may take longer than both.
func (e *executor) receive(ctx context.Context, stop context.CancelCauseFunc, mailbox chan<- wire.Message) {
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

// beat says Hello at once and then as a heartbeat. It is apart from the loop, which may be inside a
// long layer.
func (e *executor) beat(ctx context.Context) {
	tick := time.NewTicker(e.cfg.Heartbeat)
	defer tick.Stop()
	for {
		e.hello()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (e *executor) hello() {
	m := &wire.Hello{Role: wire.RoleExecutor, Name: e.cfg.Name, Epoch: e.epoch.Load()}
	if e.runner != nil {
		m.Executor = &e.info
	}
	if e.cfg.State != nil {
		m.State = e.cfg.State()
	}
	e.send(m)
}

// send drops m when the scheduler is away: it will ask for the pass again.
func (e *executor) send(m wire.Message) {
	if err := e.conn.Send(m); err != nil {
		e.cfg.Log.Debug("message dropped", zap.Error(err))
	}
}

// loop looks at the mailbox before every layer, until ctx ends or the executor cannot go on.
func (e *executor) loop(ctx context.Context, mailbox <-chan wire.Message) error {
	tick := time.NewTicker(e.cfg.Heartbeat)
	defer tick.Stop()
	for {
		if e.cfg.Alive != nil {
			e.cfg.Alive()
		}
		var err error
		if e.current == nil && (len(e.ready) == 0 || !e.settled) {
			select {
			case m := <-mailbox:
				err = e.handle(m)
			case <-tick.C:
			case <-ctx.Done():
				return nil
			}
		} else {
			select {
			case m := <-mailbox:
				err = e.handle(m)
			case <-ctx.Done():
				return nil
			default:
				err = e.step()
			}
		}
		if err != nil {
			return err
		}
	}
}

// handle returns an error when the executor cannot go on.
func (e *executor) handle(m wire.Message) error {
	switch m := m.(type) {
	case *wire.Welcome:
		switch e.scheduler {
		case m.Epoch:
			e.settled = true
		case 0:
			e.scheduler = m.Epoch
			e.hello()
		default:
			e.forget("the scheduler was restarted")
		}
	case *wire.Lost:
		e.forget("the connection to the scheduler broke")
	case *wire.Run:
		e.ready = append(e.ready, &task{run: m})
		return e.save(m.Saves)
	case *wire.Pause:
		if t := e.take(m.Pass); t != nil {
			e.paused[m.Pass] = t
			e.send(&wire.Paused{Pass: m.Pass, Layer: t.layer()})
		}
	case *wire.Resume:
		if t := e.paused[m.Pass]; t != nil {
			delete(e.paused, m.Pass)
			e.ready = append(e.ready, t)
		}
	case *wire.Abort:
		t := e.take(m.Pass)
		if t == nil {
			t = e.paused[m.Pass]
			delete(e.paused, m.Pass)
		}
		e.close(t)
	default:
		e.cfg.Log.Warn("message not meant for an executor", zap.String("type", fmt.Sprintf("%T", m)))
	}
	return nil
}

// save makes the saves of a run. The scheduler takes them for done from then on, whatever becomes of the
// run, so that without them this executor's pages are not what it knows of them.
func (e *executor) save(copies []wire.Copy) error {
	if len(copies) == 0 {
		return nil
	}
	saver, ok := e.runner.(Saver)
	if !ok {
		return fmt.Errorf("executor %s is told to save %d pages and has no host memory for them", e.cfg.Name, len(copies))
	}
	if err := checkCopies(copies, &e.info); err != nil {
		return err
	}
	if err := saver.Save(copies); err != nil {
		return fmt.Errorf("executor %s: save %d pages to host memory: %w", e.cfg.Name, len(copies), err)
	}
	return nil
}

// take removes a running or waiting pass; nil when it has ended already.
func (e *executor) take(id wire.PassID) *task {
	if t := e.current; t != nil && t.run.Pass == id {
		e.current = nil
		return t
	}
	for i, t := range e.ready {
		if t.run.Pass == id {
			e.ready = append(e.ready[:i], e.ready[i+1:]...)
			return t
		}
	}
	return nil
}

// forget drops all passes under a new epoch, and says so.
func (e *executor) forget(why string) {
	e.cfg.Log.Info("dropping all passes", zap.String("reason", why), zap.Int("passes", len(e.ready)+len(e.paused)))
	e.dropAll()
	e.scheduler, e.settled = 0, false
	e.epoch.Store(rand.Uint64())
	e.hello()
}

func (e *executor) dropAll() {
	e.close(e.current)
	e.current = nil
	for _, t := range e.ready {
		e.close(t)
	}
	e.ready = nil
	for id, t := range e.paused {
		e.close(t)
		delete(e.paused, id)
	}
}

// step computes one layer of the current pass, or begins the next one. It fails when the device is
// lost.
func (e *executor) step() error {
	if e.current == nil {
		e.current, e.ready = e.ready[0], e.ready[1:]
	}
	t := e.current
	var done bool
	start := time.Now()
	err := e.guard(t, func() (err error) {
		if t.pass == nil {
			if err = check(t.run, &e.info); err == nil {
				t.pass, err = e.runner.Begin(t.run)
			}
			return err
		}
		done, err = t.pass.Step()
		return err
	})
	t.took += time.Since(start)
	if err == nil && !done || DeviceLost(err) {
		return err
	}
	answer := &wire.Done{Pass: t.run.Pass, Took: t.took}
	if err == nil {
		err = e.guard(t, func() error { answer.Items = t.pass.Results(); return nil })
	}
	if err != nil {
		answer.Items, answer.Err = nil, e.explain(err)
	}
	e.current = nil
	e.close(t)
	e.send(answer)
	return nil
}

func (t *task) layer() int {
	if t.pass == nil {
		return 0
	}
	return t.pass.Layer()
}

func (e *executor) close(t *task) {
	if t == nil || t.pass == nil {
		return
	}
	if err := e.guard(t, func() error { t.pass.Close(); return nil }); err != nil {
		e.cfg.Log.Error("pass did not close", zap.Error(err))
	}
	t.pass = nil
}

// guard calls f and turns a panic into an error, so that a defect costs one pass and not the device.
func (e *executor) guard(t *task, f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			e.cfg.Log.Error("panic in a pass", zap.Any("panic", p), zap.Uint64("pass", uint64(t.run.Pass)), zap.ByteString("stack", debug.Stack()))
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return f()
}

func (e *executor) explain(err error) *engine.Error {
	var known *engine.Error
	if errors.As(err, &known) {
		return known
	}
	e.cfg.Log.Error("pass failed", zap.Error(err))
	return engine.Errorf(engine.CodeInternal, "executor %s: %v", e.cfg.Name, err)
}

// checkCopies refuses copies of pages that there are not.
func checkCopies(copies []wire.Copy, info *wire.ExecutorInfo) error {
	for _, c := range copies {
		if int(c.Device) >= info.NumBlocks || int(c.Host) >= info.HostBlocks {
			return fmt.Errorf("a copy between block %d of %d and page %d of %d in host memory", c.Device, info.NumBlocks, c.Host, info.HostBlocks)
		}
	}
	return nil
}

// check refuses a pass that would lead the runner outside its memory; the scheduler never sends one.
func check(run *wire.Run, info *wire.ExecutorInfo) error {
	if len(run.Items) == 0 {
		return errors.New("a pass without items")
	}
	if err := checkCopies(run.Loads, info); err != nil {
		return err
	}
	for i := range run.Items {
		item := &run.Items[i]
		if item.Cached >= len(item.Tokens) || len(item.Tokens) > info.MaxModelLen {
			return engine.Errorf(engine.CodeTooLong, "job %v has %d tokens, %d of them cached; the executor takes up to %d and at least one that is not cached",
				item.Job, len(item.Tokens), item.Cached, info.MaxModelLen)
		}
		if len(item.Blocks)*info.BlockTokens < item.Cached-item.Part.Tokens || item.Part.Tokens > 0 && int(item.Part.Block) >= info.NumBlocks {
			return fmt.Errorf("job %v: %d cached tokens in %d blocks of %d, %d of them in block %d of %d",
				item.Job, item.Cached, len(item.Blocks), info.BlockTokens, item.Part.Tokens, item.Part.Block, info.NumBlocks)
		}
		for _, id := range item.Tokens {
			if int(id) >= info.VocabSize {
				return engine.Errorf(engine.CodeBadTokens, "job %v: token %d is outside the vocabulary of %d", item.Job, id, info.VocabSize)
			}
		}
		for _, b := range item.Blocks {
			if int(b) >= info.NumBlocks {
				return fmt.Errorf("job %v: block %d of %d", item.Job, b, info.NumBlocks)
			}
		}
	}
	return nil
}
