package fleet

import (
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// Supply tells an executor which weights to drop and to load next, if its channel is free: before it picks its next
// pass.
func (f *Fleet) Supply(e *Executor) {
	if !e.Peer.Settled() {
		return
	}
	if len(e.stray) > 0 {
		f.drop(e, e.stray)
		e.stray = nil
	}
	// Loads that take the device's own time have their turn when a pass has ended.
	busy := !e.Info.Aside && (e.Running != nil || len(e.Parked) > 0)
	if e.loading != nil || busy || !e.wants(f.Seconds()) {
		return
	}
	wanting := slices.ContainsFunc(e.busy, absent)
	if wanting && slices.ContainsFunc(e.busy, e.lacks) { // then what lowest passes hold goes first
		f.yield(e, all)
	}
	if !f.load(e) && wanting && f.yield(e, all) {
		f.load(e)
	}
}

// lacks says that there is no free memory for what is absent of a lane's weights.
func (e *Executor) lacks(l *Lane) bool {
	return !l.ready && float64(e.memory.Free()) < e.memory.Load(l.model)*e.rate()
}

// load tells an executor which weights to drop and to load next; it says whether there are some to load.
func (f *Fleet) load(e *Executor) bool {
	var drop []uint32
	load := &wire.Load{}
	seconds := 0.0
	for len(load.Weights) < aheadPieces && seconds < aheadSeconds {
		if target, ok := e.memory.Target(); len(load.Weights) > 0 && (!ok || e.lanes(target).Info.Name != load.Model) {
			break
		}
		a, ok := e.memory.Next(f.asks(e))
		if !ok {
			break
		}
		l := e.lanes(a.Model)
		load.Model, e.loadFor = l.Info.Name, l
		load.Weights = append(load.Weights, uint32(a.Load))
		seconds += float64(e.Info.Weights[a.Load].Bytes) / e.rate()
		drop = append(drop, e.dropped(a.Evict)...)
	}
	f.drop(e, drop)
	if len(load.Weights) == 0 {
		return false
	}
	e.serial++
	load.Serial = e.serial
	e.loading = load
	f.Models++
	f.Send(e.Peer.ID, load)
	return true
}

// rate is the bytes of weights that are loaded a second.
func (e *Executor) rate() float64 {
	if r := e.Info.LoadRate; r > 0 && !math.IsInf(r, 0) {
		return r
	}
	return unmeasuredRate
}

// wants says whether anything is to be loaded.
func (e *Executor) wants(now float64) bool {
	return slices.ContainsFunc(slices.Concat(e.busy, e.keepers, e.low.busy), absent) || len(e.awaited(now)) > 0
}

// lanes is the lane of a model by its number in memory.
func (e *Executor) lanes(m residency.Model) *Lane {
	return e.Lanes[slices.IndexFunc(e.Lanes, func(l *Lane) bool { return l.model == m })]
}

// dropped notes that pieces are not there any more.
func (e *Executor) dropped(chunks []residency.Chunk) (pieces []uint32) {
	for _, c := range chunks {
		pieces = append(pieces, uint32(c))
		for _, l := range e.users[c] {
			l.settle()
		}
	}
	return pieces
}

func (f *Fleet) drop(e *Executor, pieces []uint32) {
	if len(pieces) > 0 {
		f.Models++
		f.Send(e.Peer.ID, &wire.Drop{Weights: pieces})
	}
}

// Loaded takes the answer to a Load. It returns the lane whose model could not be loaded, if that is so.
func (f *Fleet) Loaded(e *Executor, m *wire.Loaded) (failed *Lane) {
	load := e.loading
	if load == nil || load.Serial != m.Serial {
		return nil
	}
	l := e.loadFor
	e.loading, e.loadFor = nil, nil
	f.Models++
	count := min(max(m.Count, 0), len(load.Weights))
	if l != nil {
		l.Pool.Stats.LoadTime += max(m.Took, 0)
	}
	for _, w := range load.Weights[:count] {
		if l != nil {
			l.Pool.Stats.LoadedBytes += e.Info.Weights[w].Bytes
		}
		if !e.memory.Loaded(residency.Chunk(w)) {
			e.stray = append(e.stray, w)
			continue
		}
		for _, user := range e.users[w] {
			if was := user.ready; !was {
				if user.settle(); user.ready {
					user.Pool.Stats.Loads++
					user.readyAt = f.Now
				}
			}
		}
	}
	for _, w := range load.Weights[count:] {
		e.memory.Failed(residency.Chunk(w))
	}
	if l == nil || l.ready || m.Err == nil && count == len(load.Weights) {
		return nil
	}
	l.fail(f.Now, m.Err)
	return l
}

// fail notes that a model could not be loaded, so that it is not tried again for a while.
func (l *Lane) fail(now time.Duration, err *engine.Error) {
	reason := "its weights could not be loaded"
	if err != nil {
		reason = err.Message
	}
	wait := min(max(2*l.failure.wait, shortestWait), longestWait)
	l.failure = failure{reason: reason, until: now + wait, wait: wait}
	l.suspend(true)
}
