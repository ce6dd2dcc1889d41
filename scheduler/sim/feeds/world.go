// Package feeds simulates streams of frames for many models on a device that cannot hold all of them: one unit that computes,
// one channel that loads weights, and frames that die at a deadline. The order of runs and loads is
// scheduler/residency's, or that of a planned round robin to compare it with.
package feeds

import (
	"math"
	"math/rand/v2"
	"slices"
)

// The published setting: every model sees 30 frames a second of its camera, and a frame counts whose pass ends within
// 100 ms.
const (
	rate     = 30.0
	deadline = 0.1
	span     = 20.0 // seconds that are simulated
)

// Outcome is what became of the frames of a workload.
type Outcome struct {
	Shares []float64 // of each model's frames, served in time
	Gap    float64   // longest time that any model went without a frame, in seconds
	Loaded float64   // bytes a second
	Busy   float64   // share of the time in which the device computed
}

// Mean is the mean share of frames.
func (o *Outcome) Mean() float64 {
	sum := 0.0
	for _, s := range o.Shares {
		sum += s
	}
	return sum / float64(len(o.Shares))
}

// Least is the share of the model that is served least.
func (o *Outcome) Least() float64 { return slices.Min(o.Shares) }

// order decides what is loaded and what runs. Both are asked whenever something has happened, load first.
type order interface {
	load(w *world)                             // asked when the channel is free; may call world.startLoad
	loaded()                                   // what was loaded is there
	run(w *world)                              // asked when the device is free; may call world.startRun
	count(w *world, m *feed, served, died int) // frames have been served, or have died
}

// feed is one model and the frames that wait for it.
type feed struct {
	*architecture
	id     int
	phase  float64
	next   int       // frame that comes next
	frames []float64 // arrivals of those that wait, oldest first

	served, died int
	lastServed   float64
	gap          float64
}

// world is the state of a simulation.
type world struct {
	now     float64
	models  []*feed
	order   order
	running *feed
	batch   int
	runEnd  float64
	loading bool
	loadEnd float64
	bytes   float64
	busy    float64
	work    meter
}

// simulateWorkload runs a workload's feeds under an order.
func simulateWorkload(w Workload, seed uint64, o order) *Outcome {
	rng := rand.New(rand.NewPCG(seed, 17))
	phases := map[string]float64{}
	x := &world{order: o}
	archs := architecturesByName()
	for i, e := range w.models {
		if _, ok := phases[e.feed]; !ok {
			phases[e.feed] = rng.Float64() / rate
		}
		x.models = append(x.models, &feed{architecture: archs[e.arch], id: i, phase: phases[e.feed]})
	}
	for x.advanceToEvent() {
		x.runOrder()
	}
	return x.newOutcome()
}

// runOrder asks the order, the channel first: else a demand that always has frames is never displaced.
func (x *world) runOrder() {
	x.expireFrames()
	if !x.loading {
		x.order.load(x)
	}
	if x.running == nil {
		x.order.run(x)
	}
	if !x.loading {
		x.order.load(x)
	}
}

// advanceToEvent goes to the next event and lets it happen; false at the end.
func (x *world) advanceToEvent() bool {
	at := span
	if x.running != nil {
		at = min(at, x.runEnd)
	}
	if x.loading {
		at = min(at, x.loadEnd)
	}
	for _, m := range x.models {
		at = min(at, m.arrivalTime(m.next))
	}
	if at >= span {
		return false
	}
	x.now = at
	if x.running != nil && x.runEnd <= at {
		m, n := x.running, x.batch
		x.running = nil
		m.countServed(at, n)
		x.order.count(x, m, n, 0)
	}
	if x.loading && x.loadEnd <= at {
		x.loading = false
		x.order.loaded()
	}
	for _, m := range x.models {
		for m.arrivalTime(m.next) <= at {
			m.frames = append(m.frames, m.arrivalTime(m.next))
			m.next++
		}
	}
	return true
}

func (m *feed) arrivalTime(n int) float64 { return m.phase + float64(n)/rate }

// countServed counts frames whose pass has ended.
func (m *feed) countServed(now float64, n int) {
	m.served += n
	m.gap = max(m.gap, now-m.lastServed)
	m.lastServed = now
}

// expireFrames drops the frames that no pass could serve in time any more.
func (x *world) expireFrames() {
	for _, m := range x.models {
		if died := len(m.frames) - m.inTime(x.now, 1); died > 0 {
			m.frames = m.frames[died:]
			m.died += died
			x.order.count(x, m, 0, died)
		}
	}
}

// inTime is how many frames wait that a pass of so many would serve in time.
func (m *feed) inTime(now float64, batch int) int {
	n := 0
	for i := len(m.frames) - 1; i >= 0 && m.frames[i]+deadline >= now+m.run[batch-1]; i-- {
		n++
	}
	return n
}

// largestBatch is the most frames that a pass of the model can serve, if it comes at the right time, and has room for.
func (m *feed) largestBatch(capacity int64) int {
	n := 1
	for b := 2; b <= maxBatch; b++ {
		if m.run[b-1]+float64(b-1)/rate <= deadline && m.weights+m.area[b-1] <= capacity {
			n = b
		}
	}
	return n
}

// secondsPerFrame is the seconds that a frame costs in a pass of so many.
func (m *feed) secondsPerFrame(batch int) float64 { return m.run[batch-1] / float64(batch) }

// startLoad takes the channel for so many bytes of a model.
func (x *world) startLoad(m *feed, bytes int64) {
	x.loading = true
	x.loadEnd = x.now + float64(bytes)*m.load/float64(m.weights)
	x.bytes += float64(bytes)
}

// startRun takes the device for the oldest frames that are in time for a pass of so many.
func (x *world) startRun(m *feed, batch int) {
	n := m.inTime(x.now, batch)
	late := len(m.frames) - n
	m.died += late
	if late > 0 {
		x.order.count(x, m, 0, late)
	}
	m.frames = m.frames[late+batch:]
	x.running, x.batch, x.runEnd = m, batch, x.now+m.run[batch-1]
	x.busy += m.run[batch-1]
	x.work.addInterval(x.now, x.runEnd)
}

func (x *world) newOutcome() *Outcome {
	o := &Outcome{Loaded: x.bytes / span, Busy: x.busy / span}
	for _, m := range x.models {
		o.Shares = append(o.Shares, float64(m.served)/math.Floor((span-m.phase)*rate))
		o.Gap = max(o.Gap, m.gap, span-m.lastServed)
	}
	return o
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
