package dispatch

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/supply"
)

// laneOf is whose weights these are.
func laneOf(m *supply.Model) *Lane { return m.Of.(*Lane) }

// Supply tells an executor which weights to drop and to load next, if its channel is free: before it picks its next
// pass.
func (e *Executor) Supply() {
	if !e.Settled {
		return
	}
	e.drop(e.Device.Strays())
	// Loads that take the device's own time have their turn when a pass has ended.
	busy := !e.Info.Aside && (e.Running != nil || len(e.Parked) > 0)
	if e.Device.Loading() || busy || !e.wants(e.shared.Seconds()) {
		return
	}
	wanting := slices.ContainsFunc(e.lines[Live].busy, absent)
	if wanting && slices.ContainsFunc(e.lines[Live].busy, func(l *Lane) bool { return l.Lacks() }) { // then what lowest passes hold goes first
		e.yield(all)
	}
	if !e.load() && wanting && e.yield(all) {
		e.load()
	}
}

// load tells an executor which weights to drop and to load next; it says whether there are some to load.
func (e *Executor) load() bool {
	drop, load := e.Device.Next(e.asks)
	e.drop(drop)
	if load == nil {
		return false
	}
	e.shared.Models++
	e.shared.Send(e.ID, load)
	return true
}

// drop tells an executor which weights to drop.
func (e *Executor) drop(pieces []uint32) {
	if len(pieces) > 0 {
		e.shared.Models++
		e.shared.Send(e.ID, &wire.Drop{Weights: pieces})
	}
}

// wants says whether anything is to be loaded.
func (e *Executor) wants(now float64) bool {
	return slices.ContainsFunc(slices.Concat(e.lines[Live].busy, e.lines[Lowest].busy), absent) || e.keeps() || len(e.awaited(now)) > 0
}

// keeps says that a model that is to be kept is not there.
func (e *Executor) keeps() bool {
	return slices.ContainsFunc(e.Device.Keepers(), func(m *supply.Model) bool { return !m.Ready() })
}

// Loaded takes the answer to a Load. It returns the lane whose model could not be loaded, if that is so.
func (e *Executor) Loaded(m *wire.Loaded) (failed *Lane) {
	model, news := e.Device.Answer(e.shared.Now, m)
	if news {
		e.shared.Models++
	}
	if model == nil {
		return nil
	}
	return laneOf(model)
}

// beginArea makes room for a pass of a lane, and holds its weights until endArea; it says whether that could be.
// Passes of lowest jobs make way for others.
func (l *Lane) beginArea(c Class) bool {
	e := l.Executor
	asks := e.asks
	if c == Lowest {
		asks = e.asksLowest
	}
	drop, ok := e.Device.Begin(&l.Model, c == Lowest, asks)
	if !ok && c == Live && e.yield(all) {
		return l.beginArea(c)
	}
	e.drop(drop)
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
func (e *Executor) Tend() {
	e.noRoom = false
	for _, l := range e.Lanes {
		e.drop(l.Tend(e.shared.Now, l.Waits()))
	}
}
