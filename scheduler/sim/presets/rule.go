package presets

import (
	"time"

	"github.com/prefillonly/prefillonly/scheduler/residency"
	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// feed is one model and the frames that wait for it.
type feed struct {
	*architecture
	id     int
	come   int        // frames, ever
	frames []*sim.Job // that wait, oldest first
}

// inTime is how many frames wait that a pass of so many would serve in time.
func (m *feed) inTime(now time.Duration, batch int) int {
	n := 0
	for i := len(m.frames) - 1; i >= 0 && m.frames[i].Deadline >= now+m.run[batch-1]; i-- {
		n++
	}
	return n
}

// expireFrames drops the frames that a pass of so many could not serve in time any more, and says how many those are.
func (m *feed) expireFrames(d *sim.Desk, batch int) int {
	died := len(m.frames) - m.inTime(d.Now, batch)
	d.Expire(m.frames[:died])
	m.frames = m.frames[died:]
	return died
}

// takeFrames takes the oldest frames.
func (m *feed) takeFrames(n int) []*sim.Job {
	taken := m.frames[:n]
	m.frames = m.frames[n:]
	return taken
}

func (w Workload) newFeeds() (feeds []*feed) {
	archs := architecturesByName()
	for i, e := range w.models {
		feeds = append(feeds, &feed{architecture: archs[e.arch], id: i})
	}
	return feeds
}

// addArrived has the frames that have come wait.
func addArrived(feeds []*feed, d *sim.Desk) {
	for _, j := range d.Arrived {
		m := feeds[j.Model]
		m.come, m.frames = m.come+1, append(m.frames, j)
	}
}

// RunRule simulates the setting in the order that scheduler/residency has for frames, with all that it could know: when
// each frame comes, what passes of each number of frames take, and their work areas. The scheduler keeps to the
// same keys, but knows the frames that are there alone, and one work area for a model.
func (f Feeds) RunRule() (*FeedsOutcome, error) {
	a := f.newArrivals()
	capacity := f.Workload.deviceCapacity(f.Memory)
	r := &rule{
		capacity: capacity, memory: residency.NewMemory(capacity, false), feeds: f.Workload.newFeeds(),
		phases: a.phases, passed: -1,
	}
	specs := make([]residency.Spec, len(r.feeds))
	for c, p := range a.chunks {
		for _, i := range p.models {
			specs[i].Chunks = append(specs[i].Chunks, residency.SizedChunk{Chunk: residency.Chunk(c), Bytes: p.bytes})
		}
	}
	for i, s := range specs {
		s.Area, s.Rate = r.feeds[i].area[0], r.feeds[i].rate
		if err := r.memory.Register(residency.ModelID(i), s); err != nil {
			return nil, err
		}
		r.streams = append(r.streams, residency.NewStream(0))
	}
	return a.simulate(sim.NewDesk(r))
}

// rule is the order of scheduler/residency.
type rule struct {
	capacity int64
	memory   *residency.Memory
	feeds    []*feed
	phases   []time.Duration
	streams  []residency.Stream
	demands  []residency.Demand
	coming   residency.Chunk
	loads    bool
	passed   int   // the model that runs; none is -1
	frames   int   // of its pass
	area     int64 // of its pass
	work     meter
}

// Decide implements sim.Order. The channel is asked first: else a demand that always has frames is never displaced.
func (r *rule) Decide(d *sim.Desk) {
	now := d.Now.Seconds()
	if r.passed >= 0 && !d.Running {
		r.memory.End(residency.ModelID(r.passed), r.area)
		r.streams[r.passed].Count(now, r.frames, 0)
		r.passed = -1
	}
	if r.loads && !d.Loading {
		r.memory.Loaded(r.coming)
		r.loads = false
	}
	addArrived(r.feeds, d)
	for _, m := range r.feeds {
		r.expireFrames(d, m, 1)
	}
	r.load(d)
	r.run(d)
	r.load(d)
}

func (r *rule) expireFrames(d *sim.Desk, m *feed, batch int) {
	if died := m.expireFrames(d, batch); died > 0 {
		r.streams[m.id].Count(d.Now.Seconds(), 0, died)
	}
}

// currentDemands returns the demands: every model has frames, now or soon, so each stands for a full window of them.
func (r *rule) currentDemands(now float64) []residency.Demand {
	r.demands = r.demands[:0]
	for i, m := range r.feeds {
		n := m.largestBatch(1 << 60)
		r.demands = append(r.demands, residency.Demand{Model: residency.ModelID(i), Work: r.streams[i].Work(now, m.run[n-1].Seconds(), n)})
	}
	return r.demands
}

func (r *rule) load(d *sim.Desk) {
	if d.Loading {
		return
	}
	if a, ok := r.memory.Next(r.currentDemands(d.Now.Seconds())); ok {
		r.coming, r.loads = a.Load, true
		dropChunks(d, a.Evict)
		d.Load(int(a.Model), []uint32{uint32(a.Load)})
	}
}

func dropChunks(d *sim.Desk, chunks []residency.Chunk) {
	for _, c := range chunks {
		d.Drop([]uint32{uint32(c)})
	}
}

// run starts the pass of least key: of all models there, with as many frames as make the key least. It waits where a frame
// more is worth that.
func (r *rule) run(d *sim.Desk) {
	if d.Running {
		return
	}
	now := d.Now.Seconds()
	r.currentDemands(now)
	busy := r.work.busyShare(now)
	var best *feed
	var pass residency.Pass
	for i, m := range r.feeds {
		if !r.memory.Ready(residency.ModelID(i)) {
			continue
		}
		full := m.largestBatch(r.capacity)
		for b := 1; b <= full && m.inTime(d.Now, b) >= b; b++ {
			reload, ok := r.memory.Displaces(residency.ModelID(i), m.area[b-1], r.demands)
			if !ok {
				break
			}
			p := residency.Pass{
				Frames: r.streams[i].Work(now, m.run[b-1].Seconds(), b), Reload: reload, Full: m.run[full-1].Seconds() / float64(full), Busy: busy,
			}
			if best == nil || p.Key() < pass.Key() {
				best, pass = m, p
			}
		}
	}
	if best == nil || r.waitsForFrame(d.Now, best, pass) {
		return
	}
	n := pass.Frames.Frames
	evict, ok := r.memory.Begin(residency.ModelID(best.id), best.area[n-1], r.demands)
	if !ok {
		return
	}
	dropChunks(d, evict)
	r.expireFrames(d, best, n)
	r.passed, r.frames, r.area = best.id, n, best.area[n-1]
	r.work.addInterval(now, now+best.run[n-1].Seconds())
	d.Run(best.takeFrames(n)...)
}

// waitsForFrame says whether a pass is to wait for one frame more.
func (r *rule) waitsForFrame(now time.Duration, m *feed, p residency.Pass) bool {
	n := p.Frames.Frames
	if n == m.largestBatch(r.capacity) || m.inTime(now, n) > n {
		return false
	}
	comes := r.phases[m.id] + secondsToDuration(float64(m.come)/rate)
	return m.frames[len(m.frames)-n].Deadline >= comes+m.run[n] && p.Waits((comes-now).Seconds(), m.run[n].Seconds())
}

// meter knows how busy the device was in the last second.
type meter struct{ from, to []float64 }

func (m *meter) addInterval(from, to float64) { m.from, m.to = append(m.from, from), append(m.to, to) }

// busyShare is the share of the last second in which the device computed.
func (m *meter) busyShare(now float64) float64 {
	sum := 0.0
	for i := len(m.to) - 1; i >= 0 && m.to[i] > now-1; i-- {
		sum += min(m.to[i], now) - max(m.from[i], now-1)
	}
	return min(sum, 1)
}
