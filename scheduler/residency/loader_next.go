package residency

import (
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// ahead bounds a Load, so that it can be redirected: to so many seconds, and pieces.
const aheadSeconds, aheadPieces = 0.05, 8

// Next says what the executor is to drop and to load next, given what is asked of its models, which changes with
// what is there; load is nil if there is nothing to load. What it says is taken as done.
func (d *Loader) Next(asked func() []Demand) (drop []uint32, load *wire.Load) {
	next := &wire.Load{}
	seconds := 0.0
	for len(next.Weights) < aheadPieces && seconds < aheadSeconds {
		if target, ok := d.memory.Target(); len(next.Weights) > 0 && (!ok || d.modelByNumber(target).Info.Name != next.Model) {
			break
		}
		a, ok := d.memory.Next(asked())
		if !ok {
			break
		}
		m := d.modelByNumber(a.Model)
		next.Model, d.loadFor = m.Info.Name, m
		next.Weights = append(next.Weights, uint32(a.Load))
		seconds += float64(d.Info.Weights[a.Load].Bytes) / d.loadRate()
		drop = append(drop, d.markDropped(a.Evict)...)
	}
	if len(next.Weights) == 0 {
		return drop, nil
	}
	d.serial++
	next.Serial = d.serial
	d.loading = next
	return drop, next
}

// modelByNumber is the one of a number.
func (d *Loader) modelByNumber(n ModelID) *Model {
	return d.models[slices.IndexFunc(d.models, func(m *Model) bool { return m.number == n })]
}

// markDropped notes that pieces are not there any more.
func (d *Loader) markDropped(chunks []Chunk) (pieces []uint32) {
	for _, c := range chunks {
		pieces = append(pieces, uint32(c))
		for _, m := range d.users[c] {
			m.Settle()
		}
	}
	return pieces
}

// Answer takes the answer to a Load; it is no news if that is not the last one. It returns the model that could not be
// loaded, if that is so.
func (d *Loader) Answer(now time.Duration, a *wire.Loaded) (failed *Model, news bool) {
	load := d.loading
	if load == nil || load.Serial != a.Serial {
		return nil, false
	}
	m := d.loadFor
	d.loading, d.loadFor = nil, nil
	count := min(max(a.Count, 0), len(load.Weights))
	if m != nil {
		m.stats.LoadTime += max(a.Took, 0)
	}
	for _, w := range load.Weights[:count] {
		if m != nil {
			m.stats.LoadedBytes += d.Info.Weights[w].Bytes
		}
		d.markLoaded(now, w)
	}
	for _, w := range load.Weights[count:] {
		d.memory.Failed(Chunk(w))
	}
	if m == nil || m.ready || a.Err == nil && count == len(load.Weights) {
		return nil, true
	}
	m.recordFailure(now, a.Err)
	return m, true
}

// markLoaded notes that a piece has been loaded.
func (d *Loader) markLoaded(now time.Duration, w uint32) {
	if !d.memory.Loaded(Chunk(w)) {
		d.stray = append(d.stray, w)
		return
	}
	for _, user := range d.users[w] {
		if user.ready {
			continue
		}
		if user.Settle(); user.ready {
			user.stats.Loads++
			user.readyAt = now
		}
	}
}

// recordFailure notes that a model could not be loaded, so that it is not tried again for a while.
func (m *Model) recordFailure(now time.Duration, err *engine.Error) {
	reason := "its weights could not be loaded"
	if err != nil {
		reason = err.Message
	}
	wait := min(max(2*m.failure.wait, shortestWait), longestWait)
	m.failure = failure{reason: reason, until: now + wait, wait: wait}
	m.setSuspended(true)
}
