package residency

import (
	"math"
	"slices"
)

// Demand is what is asked of one model on the device, as it is now. A model without one has nothing waiting.
type Demand struct {
	Model ModelID
	Work  Work
	Idle  bool // nothing waits: it stands for what is expected
	// Kept is that deadlines are promised: the demand stays where it is, and if it is absent it is loaded before all
	// others and displaces any that is not kept. What is kept at one time must fit at one time.
	Kept bool
}

// Action is what a device is told: to drop some chunks, and then to load one.
type Action struct {
	Model ModelID // for which it is loaded
	Evict []Chunk
	Load  Chunk
}

// Next decides what the channel does next, given the demands that have work; ok is false for nothing. What it says is
// taken as done: the chunks to evict are gone, and the one to load is on its way until Loaded or Failed is told. Any
// number may be on their way at once; the device gets its commands in this order.
//
// It is to be asked when the channel is free and something has changed, before the device picks its next pass. If loads
// take the device's own time it is asked when the device is free, and the device waits for the load.
func (m *Memory) Next(demands []Demand) (a Action, ok bool) {
	if !m.lacksWantedModel(demands) {
		m.target = nil
		return Action{}, false
	}
	m.weighDemands(demands)
	if t := m.target; t != nil && (t.gone == 0 || t.round != m.round && !t.keep) {
		m.target = nil
	}
	if m.target == nil || !m.isFeasible(m.target) || !m.target.kept && m.lacksKeptModel(demands) {
		m.target = m.chooseModel(demands)
	}
	if m.target == nil || m.ownTime && m.isOutrun(demands, m.target.victimBar()) {
		return Action{}, false
	}
	return m.loadNextChunk(m.target)
}

// lacksKeptModel says whether anything of a kept demand's model is absent.
func (m *Memory) lacksKeptModel(demands []Demand) bool {
	return slices.ContainsFunc(demands, func(l Demand) bool {
		x := m.modelByID(l.Model)
		return l.Kept && x != nil && x.gone > 0
	})
}

// isOutrun says whether a demand that could run has a smaller key.
func (m *Memory) isOutrun(demands []Demand, bar float64) bool {
	return slices.ContainsFunc(demands, func(l Demand) bool {
		x := m.modelByID(l.Model)
		return !l.Idle && x != nil && x.isReady() && x.key < bar
	})
}

// lacksWantedModel says whether anything of a demand's model, or of one to keep, is absent.
func (m *Memory) lacksWantedModel(demands []Demand) bool {
	for _, l := range demands {
		if x := m.modelByID(l.Model); x != nil && x.gone > 0 {
			return true
		}
	}
	return slices.ContainsFunc(m.keepers, func(x *model) bool { return x.gone > 0 })
}

// weighDemands sets the keys of models and chunks for a decision, those of what is whole first: only these have a say in
// what becomes of chunks.
func (m *Memory) weighDemands(demands []Demand) {
	m.round++
	m.waiting = m.waiting[:0]
	for _, x := range m.keepers {
		x.round, x.key, x.kept = m.round, math.MaxFloat64, false
	}
	for _, l := range demands {
		x := m.modelByID(l.Model)
		if x == nil {
			continue
		}
		x.round, x.key, x.kept = m.round, math.MaxFloat64, l.Kept
		if x.isWhole() {
			x.key = l.workKey(x.seconds(x.missing), 0)
			m.waiting = append(m.waiting, x)
			m.weighChunks(x)
		}
	}
	m.gatherVictims()
	for _, l := range demands {
		if x := m.modelByID(l.Model); x != nil && !x.isWhole() {
			x.key = l.workKey(x.seconds(x.missing), x.seconds(m.lossBytes(x)))
		}
	}
}

// workKey is that of its work; of a kept demand without any it is greater than all others.
func (l Demand) workKey(load, back float64) float64 {
	if l.Work == nil {
		return math.MaxFloat64
	}
	return l.Work.Key(load, back)
}

// lossBytes is the bytes that demands would lose for a model to be loaded.
func (m *Memory) lossBytes(x *model) int64 {
	return min(x.absent, max(0, x.absent+x.area-(m.capacity-m.weights)-m.unused))
}

// weighChunks gives a model a say in what becomes of its chunks.
func (m *Memory) weighChunks(x *model) {
	for _, c := range x.chunks {
		if c.round != m.round {
			c.round, c.key, c.fixed = m.round, math.Inf(1), false
		}
		if x.isWhole() {
			c.key = min(c.key, x.key)
		}
		c.fixed = c.fixed || x.kept
	}
}

// holdChunks keeps a model's chunks out of a decision.
func (m *Memory) holdChunks(x *model) {
	x.kept = true
	m.weighChunks(x)
}

// isFeasible says whether a model can be loaded and run once the passes of now have ended, if only what has greater
// keys makes room, and the pass of any better demand that is there has room too.
func (m *Memory) isFeasible(x *model) bool {
	room := m.capacity - m.weights
	if n := m.countVictimsAbove(x.victimBar()); n > 0 {
		room += m.victims[n-1].sum
	}
	if x.absent+x.area > room {
		return false
	}
	for _, c := range x.chunks { // its own are no victims
		if m.mayGo(c, x.victimBar()) {
			room -= c.bytes
		}
	}
	return x.absent+max(x.area, m.largestBetterArea(x.victimBar())) <= room
}

// largestBetterArea is the largest work area of the demands that are ready and have a smaller key.
func (m *Memory) largestBetterArea(bar float64) (area int64) {
	for _, x := range m.waiting {
		if x.key < bar {
			area = max(area, x.area)
		}
	}
	return area
}

// mayGo says whether a chunk is a victim under a bar.
func (m *Memory) mayGo(c *chunk, bar float64) bool {
	if c.state != resident || c.keeps > 0 {
		return false
	}
	return c.round != m.round || !c.fixed && c.key > bar
}

// chooseModel returns the model to load: of the demands that can be, the kept ones first, then the least key; nil for none.
func (m *Memory) chooseModel(demands []Demand) *model {
	var best *model
	for _, l := range demands {
		if x := m.modelByID(l.Model); x != nil && x.gone > 0 && x.isSooner(best) && m.isFeasible(x) {
			best = x
		}
	}
	for _, x := range m.keepers {
		if x.gone > 0 && x.isSooner(best) && m.isFeasible(x) {
			best = x
		}
	}
	return best
}

// isSooner says whether a model is to be loaded before another, if there is one.
func (x *model) isSooner(other *model) bool {
	if other == nil || x.kept != other.kept {
		return other == nil || x.kept
	}
	return x.key < other.key
}

// loadNextChunk loads the next chunk of a model, if what must go for it is not held by a pass.
func (m *Memory) loadNextChunk(x *model) (a Action, ok bool) {
	i := slices.IndexFunc(x.chunks, func(c *chunk) bool { return c.state == absent })
	c := x.chunks[i]
	evict, ok := m.makeRoom(c.bytes+max(0, m.largestBetterArea(x.victimBar())-m.areas), x, x.victimBar())
	if !ok {
		return Action{}, false
	}
	m.setChunkState(c, loading)
	m.flights = append(m.flights, flight{c, x})
	if x.gone == 0 {
		m.target = nil
	}
	return Action{Model: x.id, Evict: evict, Load: c.id}, true
}

// makeRoom evicts so much, of what has greater keys than the bar and is used neither by a pass nor by a model, that
// bytes are free. If that cannot be it evicts nothing.
func (m *Memory) makeRoom(bytes int64, by *model, bar float64) (evict []Chunk, ok bool) {
	out, ok := m.chunksToEvict(bytes, by, bar)
	for _, c := range out {
		evict = append(evict, c.id)
		m.setChunkState(c, absent)
	}
	return evict, ok
}

// chunksToEvict is what makeRoom evicts.
func (m *Memory) chunksToEvict(bytes int64, by *model, bar float64) (out []*chunk, ok bool) {
	need := bytes - m.freeBytes()
	if need <= 0 {
		return nil, true
	}
	for _, c := range by.chunks {
		c.own = m.round
	}
	for _, v := range m.victims[:m.countVictimsAbove(bar)] {
		if c := v.chunk; c.begun == 0 && c.own != m.round {
			out = append(out, c)
			need -= c.bytes
		}
		if need <= 0 {
			break
		}
	}
	if need > 0 {
		return nil, false
	}
	spare := -need // the first ones may have been for nothing
	for i := len(out) - 1; i >= 0; i-- {
		if c := out[i]; c.bytes <= spare {
			spare -= c.bytes
			out = slices.Delete(out, i, i+1)
		}
	}
	return out, true
}

// Begin reserves the work area of a pass of a model that is ready, and holds its chunks until End. It returns what is to
// be dropped before; ok is false if other passes, kept demands and the model that is being loaded leave no such room now.
func (m *Memory) Begin(id ModelID, area int64, demands []Demand) (evict []Chunk, ok bool) {
	evict, ok = m.BeginUnused(id, area, demands)
	if ok {
		m.clock++
		for _, c := range m.models[id].chunks {
			c.used = m.clock
		}
	}
	return evict, ok
}

// BeginUnused is Begin of a pass that does not count as a use: what was used longest ago goes first.
func (m *Memory) BeginUnused(id ModelID, area int64, demands []Demand) (evict []Chunk, ok bool) {
	x := m.models[id]
	if m.freeBytes() < area {
		m.surveyVictims(demands)
		if evict, ok = m.makeRoom(area, x, math.Inf(-1)); !ok {
			return nil, false
		}
	}
	m.areas += area
	x.passes++
	for _, c := range x.chunks {
		c.begun++
	}
	return evict, true
}

// surveyVictims lists the victims of a work area: all but those of models that are being loaded.
func (m *Memory) surveyVictims(demands []Demand) {
	m.weighDemands(demands)
	if m.target != nil {
		m.holdChunks(m.target)
	}
	for _, f := range m.flights {
		m.holdChunks(f.model)
	}
	m.gatherVictims()
}

// End gives back what Begin has reserved.
func (m *Memory) End(id ModelID, area int64) {
	x := m.models[id]
	m.areas -= area
	x.passes--
	for _, c := range x.chunks {
		c.begun--
	}
}
