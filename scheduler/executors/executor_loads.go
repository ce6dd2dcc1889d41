package executors

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// LoadWeights tells an executor which weights to drop and to load next, if its channel is free: before it picks its next
// pass.
func (e *Executor) LoadWeights() {
	if !e.Settled {
		return
	}
	e.dropWeights(e.Loader.Strays())
	// Loads that take the device's own time have their turn when a pass has ended.
	busy := !e.Info.Aside && (e.Running != nil || len(e.Parked) > 0)
	if e.Loader.Loading() || busy || !e.wantsLoads(e.shared.Seconds()) {
		return
	}
	wanting := slices.ContainsFunc(e.lines[Live].busy, isAbsent)
	if wanting && slices.ContainsFunc(e.lines[Live].busy, func(inst *Instance) bool { return inst.Lacks() }) { // then what lowest passes hold goes first
		e.abortLowest(anyPass)
	}
	if !e.loadNext() && wanting && e.abortLowest(anyPass) {
		e.loadNext()
	}
}

// loadNext tells an executor which weights to drop and to load next; it says whether there are some to load.
func (e *Executor) loadNext() bool {
	drop, load := e.Loader.Next(e.modelDemands)
	e.dropWeights(drop)
	if load == nil {
		return false
	}
	e.shared.Models++
	e.shared.Send(e.ID, load)
	return true
}

// dropWeights tells an executor which weights to drop.
func (e *Executor) dropWeights(pieces []uint32) {
	if len(pieces) > 0 {
		e.shared.Models++
		e.shared.Send(e.ID, &wire.Drop{Weights: pieces})
	}
}

// wantsLoads says whether anything is to be loaded.
func (e *Executor) wantsLoads(now float64) bool {
	return slices.ContainsFunc(slices.Concat(e.lines[Live].busy, e.lines[Lowest].busy), isAbsent) || e.lacksKeepers() || len(e.awaitedInstances(now)) > 0
}

// lacksKeepers says that a model that is to be kept is not there.
func (e *Executor) lacksKeepers() bool {
	return slices.ContainsFunc(e.Loader.Keepers(), func(m *residency.Model) bool { return !m.Ready() })
}

// LoadAnswered takes the answer to a Load. It returns the instance whose model could not be loaded, if that is so.
func (e *Executor) LoadAnswered(m *wire.Loaded) (failed *Instance) {
	model, news := e.Loader.Answer(e.shared.Now, m)
	if news {
		e.shared.Models++
	}
	if model == nil {
		return nil
	}
	return e.Instance(model.Info.Name)
}

// beginArea makes room for a pass of an instance, and holds its weights until endArea; it says whether that could be.
// Passes of lowest jobs make way for others.
func (inst *Instance) beginArea(c Class) bool {
	e := inst.Executor
	asks := e.modelDemands
	if c == Lowest {
		asks = e.lowestDemands
	}
	drop, ok := e.Loader.Begin(&inst.Model, c == Lowest, asks)
	if !ok && c == Live && e.abortLowest(anyPass) {
		return inst.beginArea(c)
	}
	e.dropWeights(drop)
	return ok
}

// endArea gives back what beginArea took, once the pass is off the executor.
func (e *Executor) endArea(inst *Instance) { e.Loader.End(&inst.Model, e.workBytes()) }

// workBytes is the bytes that the passes on the executor work in at most.
func (e *Executor) workBytes() (most uint64) {
	for _, p := range e.Passes() {
		most = max(most, p.Instance.Info.Work)
	}
	return most
}

// TendModels drops the weights of models that have been idle for as long as they are kept, or are to be unloaded, and tries
// again those to be kept that have failed.
func (e *Executor) TendModels() {
	e.noRoom = false
	for _, inst := range e.Instances {
		e.dropWeights(inst.Tend(e.shared.Now, inst.Waits()))
	}
}
