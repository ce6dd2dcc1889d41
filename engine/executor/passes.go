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

// running says that there is a pass to be stepped that is not of lowest jobs.
func (p *passes) running() bool { return p.current != nil || len(p.ready) > 0 }

// all lists the passes.
func (p *passes) all() []*task {
	list := slices.AppendSeq(slices.Concat(p.ready, p.nested, p.lowest), maps.Values(p.paused))
	if p.current != nil {
		list = append(list, p.current)
	}
	return list
}

// find is nil of a pass that has ended already.
func (p *passes) find(id wire.PassID) *task {
	for _, t := range p.all() {
		if t.run.Pass == id {
			return t
		}
	}
	return nil
}

// remove takes a pass from where it is.
func (p *passes) remove(t *task) {
	this := func(other *task) bool { return other == t }
	p.ready, p.nested, p.lowest = slices.DeleteFunc(p.ready, this), slices.DeleteFunc(p.nested, this), slices.DeleteFunc(p.lowest, this)
	delete(p.paused, t.run.Pass)
	if p.current == t {
		p.current = nil
	}
}

// accept takes a run up.
func (e *executor) accept(run *wire.Run) {
	switch t := (&task{run: run}); {
	case run.Nested:
		e.nested = append(e.nested, t)
	case run.Lowest:
		e.lowest = append(e.lowest, t)
	default:
		e.ready = append(e.ready, t)
	}
}

// next is the pass to be stepped, at which some are: the first of lowest jobs if there is no other, or to bring it to
// where another may go on.
func (p *passes) next() *task {
	if len(p.lowest) > 0 && (!p.running() || p.lowest[0].inside) {
		return p.lowest[0]
	}
	if p.current == nil {
		p.current, p.ready = p.ready[0], p.ready[1:]
	}
	return p.current
}

// pause has a pass stop at its next boundary.
func (e *executor) pause(id wire.PassID) {
	if t := e.find(id); t != nil && e.paused[id] == nil {
		t.pausing = true
		e.park(t)
	}
}

// park pauses a pass that is to be paused, if it can be now.
func (e *executor) park(t *task) {
	if !t.pausing || t.inside {
		return
	}
	e.remove(t)
	t.pausing = false
	e.paused[t.run.Pass] = t
	e.send(&wire.Paused{Pass: t.run.Pass, Share: t.share})
}

func (e *executor) resume(id wire.PassID) {
	if t := e.paused[id]; t != nil {
		e.remove(t)
		e.ready = append(e.ready, t)
	}
}

func (e *executor) abort(id wire.PassID) {
	if t := e.find(id); t != nil {
		e.drop(t)
		return
	}
	for _, t := range e.preparing.list {
		t.dropped = t.dropped || t.run.Pass == id
	}
}

// drop closes a pass that is not being prepared.
func (e *executor) drop(t *task) {
	e.remove(t)
	e.close(t)
}

func (e *executor) dropAll() {
	for _, t := range e.all() {
		e.drop(t)
	}
	for _, t := range e.preparing.list {
		t.dropped = true
	}
}

// step takes a step of the pass that is next, or begins it. It fails when the device is lost.
func (e *executor) step() error {
	t := e.next()
	before := t.took
	done, err := e.advance(t)
	e.owed -= t.took - before
	switch {
	case DeviceLost(err):
		return err
	case done:
		e.finish(t, err)
	case t.prepare != nil:
		e.prepare(t)
	default:
		e.park(t)
	}
	return nil
}

// nest runs a nested pass from its beginning to its end. It fails when the device is lost.
func (e *executor) nest() error {
	t := e.nested[0]
	for {
		done, err := e.advance(t)
		if DeviceLost(err) {
			return err
		}
		if done {
			e.finish(t, err)
			return nil
		}
		if t.prepare != nil {
			e.prepare(t)
			return nil
		}
		e.alive()
	}
}

// advance begins a pass or takes its next step, and says whether that was its end, as it is with an error.
func (e *executor) advance(t *task) (done bool, err error) {
	start := time.Now()
	err = e.guard(func() error {
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
		e.stepped(t.run.Model, spent)
	}
	return done || err != nil, err
}

func (e *executor) begin(t *task) (err error) {
	if len(t.run.Items) == 0 {
		return errors.New("a pass without items")
	}
	t.pass, err = e.runner.Begin(t.run)
	if err != nil && e.yield(t, err) {
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

// yield drops the pass of lowest jobs that stands still, if another one finds no room beside it; it says whether it has.
func (e *executor) yield(to *task, err error) bool {
	var full *engine.Error
	if to.run.Lowest || !errors.As(err, &full) || full.Code != engine.CodeOverloaded || len(e.lowest) == 0 || e.lowest[0].pass == nil {
		return false
	}
	e.finish(e.lowest[0], engine.Errorf(engine.CodeOverloaded, "pass %d took its room", to.run.Pass))
	return true
}

// finish answers for a pass that has come to its end, or to the error that is it.
func (e *executor) finish(t *task, err error) {
	e.remove(t)
	answer := &wire.Done{Pass: t.run.Pass, Took: t.took}
	if err == nil {
		err = e.guard(func() error { answer.Items = t.pass.Results(); return nil })
	}
	if err != nil {
		answer.Items, answer.Err = nil, e.explain(err)
	}
	e.close(t)
	e.send(answer)
	if err == nil {
		e.measured()
	}
}

func (e *executor) close(t *task) {
	if t.pass == nil {
		return
	}
	if err := e.guard(func() error { t.pass.Close(); return nil }); err != nil {
		e.cfg.Log.Error("pass did not close", zap.Error(err))
	}
	t.pass = nil
}

// explain makes an error what the scheduler is told.
func (e *executor) explain(err error) *engine.Error {
	var known *engine.Error
	if errors.As(err, &known) {
		return known
	}
	e.cfg.Log.Error("the runner failed", zap.Error(err))
	return engine.Errorf(engine.CodeInternal, "executor %s: %v", e.cfg.Name, err)
}
