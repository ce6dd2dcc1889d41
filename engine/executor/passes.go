package executor

import (
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// passes are those of an executor. All but current and the first of the lowest have not begun or are at a boundary; of
// these two one is.
type passes struct {
	current *task
	ready   []*task // in the order of their Run or Resume
	paused  map[wire.PassID]*task
	nested  []*task // not begun
	lowest  []*task // in the order of their Run; all but the first have not begun
}

// task is one pass on its way.
type task struct {
	run     *wire.Run
	pass    Pass          // nil until it has begun
	took    time.Duration // inside the runner so far
	share   float64       // of it that is done
	inside  bool          // it is not at a boundary
	pausing bool          // it is to stop at the next one
	prepare func()        // that is to be done, or being done, beside the device; nil: nothing
	dropped bool          // nobody wants it, once it is prepared
}

// hasRunnable says that there is a pass to be stepped that is not of lowest jobs.
func (p *passes) hasRunnable() bool { return p.current != nil || len(p.ready) > 0 }

// allPasses lists the passes.
func (p *passes) allPasses() []*task {
	list := slices.AppendSeq(slices.Concat(p.ready, p.nested, p.lowest), maps.Values(p.paused))
	if p.current != nil {
		list = append(list, p.current)
	}
	return list
}

// findPass is nil of a pass that has ended already.
func (p *passes) findPass(id wire.PassID) *task {
	for _, t := range p.allPasses() {
		if t.run.Pass == id {
			return t
		}
	}
	return nil
}

// removePass takes a pass from where it is.
func (p *passes) removePass(t *task) {
	this := func(other *task) bool { return other == t }
	p.ready, p.nested, p.lowest = slices.DeleteFunc(p.ready, this), slices.DeleteFunc(p.nested, this), slices.DeleteFunc(p.lowest, this)
	delete(p.paused, t.run.Pass)
	if p.current == t {
		p.current = nil
	}
}

// acceptRun takes a run up.
func (e *executor) acceptRun(run *wire.Run) {
	switch t := (&task{run: run}); {
	case run.Nested:
		e.nested = append(e.nested, t)
	case run.Lowest:
		e.lowest = append(e.lowest, t)
	default:
		e.ready = append(e.ready, t)
	}
}

// nextPass is the pass to be stepped, at which some are: the first of lowest jobs if there is no other, or to bring it to
// where another may go on.
func (p *passes) nextPass() *task {
	if len(p.lowest) > 0 && (!p.hasRunnable() || p.lowest[0].inside) {
		return p.lowest[0]
	}
	if p.current == nil {
		p.current, p.ready = p.ready[0], p.ready[1:]
	}
	return p.current
}

// pausePass has a pass stop at its next boundary.
func (e *executor) pausePass(id wire.PassID) {
	if t := e.findPass(id); t != nil && e.paused[id] == nil {
		t.pausing = true
		e.parkPass(t)
	}
}

// parkPass pauses a pass that is to be paused, if it can be now.
func (e *executor) parkPass(t *task) {
	if !t.pausing || t.inside {
		return
	}
	e.removePass(t)
	t.pausing = false
	e.paused[t.run.Pass] = t
	e.sendMessage(&wire.Paused{Pass: t.run.Pass, Share: t.share})
}

func (e *executor) resumePass(id wire.PassID) {
	if t := e.paused[id]; t != nil {
		e.removePass(t)
		e.ready = append(e.ready, t)
	}
}

func (e *executor) abortPass(id wire.PassID) {
	if t := e.findPass(id); t != nil {
		e.dropPass(t)
		return
	}
	for _, t := range e.preparing.list {
		t.dropped = t.dropped || t.run.Pass == id
	}
}

// dropPass closes a pass that is not being prepared.
func (e *executor) dropPass(t *task) {
	e.removePass(t)
	e.close(t)
}

func (e *executor) dropAll() {
	for _, t := range e.allPasses() {
		e.dropPass(t)
	}
	for _, t := range e.preparing.list {
		t.dropped = true
	}
}

// stepPass takes a step of the pass that is next, or begins it. It fails when the device is lost.
func (e *executor) stepPass() error {
	t := e.nextPass()
	before := t.took
	done, err := e.advancePass(t)
	e.owed -= t.took - before
	switch {
	case DeviceLost(err):
		return err
	case done:
		e.finishPass(t, err)
	case t.prepare != nil:
		e.preparePass(t)
	default:
		e.parkPass(t)
	}
	return nil
}

// runNested runs a nested pass from its beginning to its end. It fails when the device is lost.
func (e *executor) runNested() error {
	t := e.nested[0]
	for {
		done, err := e.advancePass(t)
		if DeviceLost(err) {
			return err
		}
		if done {
			e.finishPass(t, err)
			return nil
		}
		if t.prepare != nil {
			e.preparePass(t)
			return nil
		}
		e.reportAlive()
	}
}

// advancePass begins a pass or takes its next step, and says whether that was its end, as it is with an error.
func (e *executor) advancePass(t *task) (done bool, err error) {
	start := time.Now()
	err = e.guardPanic(func() error {
		if t.pass == nil {
			return e.begin(t)
		}
		if done, err = t.pass.Step(); err == nil {
			t.inside, t.share = !t.pass.Boundary(), t.pass.Share()
		}
		return err
	}, zap.Uint64("pass", uint64(t.run.Pass)))
	spent := time.Since(start)
	t.took += spent
	if err == nil {
		e.noteStep(t.run.Model, spent)
	}
	return done || err != nil, err
}

func (e *executor) begin(t *task) (err error) {
	if len(t.run.Items) == 0 {
		return errors.New("a pass without items")
	}
	t.pass, err = e.runner.Begin(t.run)
	if err != nil && e.yieldLowest(t, err) {
		t.pass, err = e.runner.Begin(t.run)
	}
	if err != nil {
		return err
	}
	if p, ok := t.pass.(Preparer); ok {
		t.prepare = p.Prepare()
	}
	return nil
}

// yieldLowest drops the pass of lowest jobs that stands still, if another one finds no room beside it; it says whether it has.
func (e *executor) yieldLowest(to *task, err error) bool {
	var full *engine.Error
	if to.run.Lowest || !errors.As(err, &full) || full.Code != engine.CodeOverloaded || len(e.lowest) == 0 || e.lowest[0].pass == nil {
		return false
	}
	e.finishPass(e.lowest[0], engine.Errorf(engine.CodeOverloaded, "pass %d took its room", to.run.Pass))
	return true
}

// finishPass answers for a pass that has come to its end, or to the error that is it.
func (e *executor) finishPass(t *task, err error) {
	e.removePass(t)
	answer := &wire.Done{Pass: t.run.Pass, Took: t.took}
	if err == nil {
		err = e.guardPanic(func() error { answer.Items = t.pass.Results(); return nil })
	}
	if err != nil {
		answer.Items, answer.Err = nil, e.explainError(err)
	}
	e.close(t)
	e.sendMessage(answer)
	if err == nil {
		e.tellStepBounds()
	}
}

func (e *executor) close(t *task) {
	if t.pass == nil {
		return
	}
	if err := e.guardPanic(func() error { t.pass.Close(); return nil }); err != nil {
		e.cfg.Log.Error("pass did not close", zap.Error(err))
	}
	t.pass = nil
}

// explainError makes an error what the scheduler is told.
func (e *executor) explainError(err error) *engine.Error {
	var known *engine.Error
	if errors.As(err, &known) {
		return known
	}
	e.cfg.Log.Error("the runner failed", zap.Error(err))
	return engine.Errorf(engine.CodeInternal, "executor %s: %v", e.cfg.Name, err)
}
