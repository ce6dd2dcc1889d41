package feeds

import (
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// Rule simulates a workload in the order of scheduler/residency.
func Rule(w Workload, memory Memory, merged bool, seed uint64) (*Outcome, error) {
	r := &rule{capacity: w.deviceCapacity(memory), memory: residency.NewMemory(w.deviceCapacity(memory), false), streams: make([]residency.Stream, len(w.models))}
	specs := make([]residency.Spec, len(w.models))
	for i := range r.streams {
		r.streams[i] = residency.NewStream(0)
	}
	archs := architecturesByName()
	for c, p := range w.weightChunks(merged) {
		r.bytes = append(r.bytes, p.bytes)
		for _, i := range p.models {
			specs[i].Chunks = append(specs[i].Chunks, residency.SizedChunk{Chunk: residency.Chunk(c), Bytes: p.bytes})
		}
	}
	for i, s := range specs {
		a := archs[w.models[i].arch]
		s.Area, s.Rate = a.area[0], float64(a.weights)/a.load
		if err := r.memory.Register(residency.ModelID(i), s); err != nil {
			return nil, err
		}
	}
	return simulateWorkload(w, seed, r), nil
}

// rule is the order of scheduler/residency.
type rule struct {
	capacity int64
	memory   *residency.Memory
	streams  []residency.Stream
	bytes    []int64 // of chunks
	loads    residency.Chunk
	area     int64 // of the pass that runs
	demands  []residency.Demand
}

// currentDemands returns the demands: every model has frames, now or soon, so each stands for a full window of them.
func (r *rule) currentDemands(x *world) []residency.Demand {
	r.demands = r.demands[:0]
	for i, m := range x.models {
		n := m.largestBatch(1 << 60)
		r.demands = append(r.demands, residency.Demand{Model: residency.ModelID(i), Work: r.streams[i].Work(x.now, m.run[n-1], n)})
	}
	return r.demands
}

func (r *rule) load(x *world) {
	if a, ok := r.memory.Next(r.currentDemands(x)); ok {
		r.loads = a.Load
		x.startLoad(x.models[a.Model], r.bytes[a.Load])
	}
}

func (r *rule) loaded() { r.memory.Loaded(r.loads) }

// run starts the pass of least key: of all models there, with as many frames as make the key least. It waits where a frame
// more is worth that.
func (r *rule) run(x *world) {
	r.currentDemands(x)
	busy := x.work.busyShare(x.now)
	var best *feed
	var pass residency.Pass
	for i, m := range x.models {
		if !r.memory.Ready(residency.ModelID(i)) {
			continue
		}
		full := m.largestBatch(r.capacity)
		for b := 1; b <= full && m.inTime(x.now, b) >= b; b++ {
			reload, ok := r.memory.Displaces(residency.ModelID(i), m.area[b-1], r.demands)
			if !ok {
				break
			}
			p := residency.Pass{Frames: r.streams[i].Work(x.now, m.run[b-1], b), Reload: reload, Full: m.secondsPerFrame(full), Busy: busy}
			if best == nil || p.Key() < pass.Key() {
				best, pass = m, p
			}
		}
	}
	if best == nil || r.waitsForFrame(x, best, pass) {
		return
	}
	n := pass.Frames.Frames
	if _, ok := r.memory.Begin(residency.ModelID(best.id), best.area[n-1], r.demands); ok {
		r.area = best.area[n-1]
		x.startRun(best, n)
	}
}

// waitsForFrame says whether a pass is to wait for one frame more.
func (r *rule) waitsForFrame(x *world, m *feed, p residency.Pass) bool {
	n := p.Frames.Frames
	if n == m.largestBatch(r.capacity) || m.inTime(x.now, n) > n {
		return false
	}
	comes, oldest := m.arrivalTime(m.next), m.frames[len(m.frames)-n]
	return oldest+deadline >= comes+m.run[n] && p.Waits(comes-x.now, m.run[n])
}

func (r *rule) count(x *world, m *feed, served, died int) {
	if served > 0 {
		r.memory.End(residency.ModelID(m.id), r.area)
	}
	r.streams[m.id].Count(x.now, served, died)
}
