package fleet

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/residency"
	"github.com/prefillonly/prefillonly/scheduler/supply"
)

// laneOf is whose weights these are.
func laneOf(m *supply.Model) *Lane { return m.Of.(*Lane) }

// Supply tells an executor which weights to drop and to load next, if its channel is free: before it picks its next
// pass.
func (f *Fleet) Supply(e *Executor) {
	if !e.Peer.Settled() {
		return
	}
	f.drop(e, e.Device.Strays())
	// Loads that take the device's own time have their turn when a pass has ended.
	busy := !e.Info.Aside && (e.Running != nil || len(e.Parked) > 0)
	if e.Device.Loading() || busy || !e.wants(f.Seconds()) {
		return
	}
	wanting := slices.ContainsFunc(e.busy, absent)
	if wanting && slices.ContainsFunc(e.busy, func(l *Lane) bool { return l.Lacks() }) { // then what lowest passes hold goes first
		f.yield(e, all)
	}
	if !f.load(e) && wanting && f.yield(e, all) {
		f.load(e)
	}
}

// load tells an executor which weights to drop and to load next; it says whether there are some to load.
func (f *Fleet) load(e *Executor) bool {
	drop, load := e.Device.Next(func() []residency.Lane { return f.asks(e) })
	f.drop(e, drop)
	if load == nil {
		return false
	}
	f.Models++
	f.Send(e.Peer.ID, load)
	return true
}

// drop tells an executor which weights to drop.
func (f *Fleet) drop(e *Executor, pieces []uint32) {
	if len(pieces) > 0 {
		f.Models++
		f.Send(e.Peer.ID, &wire.Drop{Weights: pieces})
	}
}

// wants says whether anything is to be loaded.
func (e *Executor) wants(now float64) bool {
	return slices.ContainsFunc(slices.Concat(e.busy, e.low.busy), absent) || e.keeps() || len(e.awaited(now)) > 0
}

// keeps says that a model that is to be kept is not there.
func (e *Executor) keeps() bool {
	return slices.ContainsFunc(e.Device.Keepers(), func(m *supply.Model) bool { return !m.Ready() })
}

// Loaded takes the answer to a Load. It returns the lane whose model could not be loaded, if that is so.
func (f *Fleet) Loaded(e *Executor, m *wire.Loaded) (failed *Lane) {
	model, news := e.Device.Answer(f.Now, m)
	if news {
		f.Models++
	}
	if model == nil {
		return nil
	}
	return laneOf(model)
}

// beginArea makes room for a pass of a lane, and holds its weights until endArea; it says whether that could be.
// Passes of lowest jobs make way for others.
func (f *Fleet) beginArea(l *Lane, c class) bool {
	e := l.Executor
	asks := f.asks
	if c == lowest {
		asks = f.asksLowest
	}
	drop, ok := e.Device.Begin(&l.Model, c == lowest, func() []residency.Lane { return asks(e) })
	if !ok && c == live && f.yield(e, all) {
		return f.beginArea(l, c)
	}
	f.drop(e, drop)
	return ok
}

// endArea gives back what beginArea took, once the pass is off the executor.
func (e *Executor) endArea(l *Lane) { e.Device.End(&l.Model, e.work()) }

// work is the bytes that the passes on the executor work in at most.
func (e *Executor) work() (most uint64) {
	for _, p := range e.Passes() {
		most = max(most, p.Lane.Info.Work)
	}
	return most
}

// Tend drops the weights of models that have been idle for as long as they are kept, or are to be unloaded, and tries
// again those to be kept that have failed.
func (f *Fleet) Tend(e *Executor) {
	e.noRoom = false
	for _, l := range e.Lanes {
		f.drop(e, l.Tend(f.Now, l.waiting+l.Lowest.Len() > 0))
	}
}

// promises says, of a model, whether a stream with promised deadlines needs it.
func (f *Fleet) promises(e *Executor) func(model string) bool {
	return func(model string) bool { return e.ledger.Needs(f.Seconds(), model) }
}

// Stuck says why the jobs of a lane have had no room beside models with promised deadlines for so long; nil if they
// have.
func (f *Fleet) Stuck(l *Lane, after time.Duration) *engine.Error {
	return l.Model.Stuck(f.Now, l.waiting+l.Lowest.Len() > 0, f.promises(l.Executor), after)
}
