package presets

import (
	"cmp"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/scheduler"
	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// The published setting: every model sees 30 frames a second of its camera.
const (
	rate = 30.0
	span = 20 * time.Second // that is simulated
)

// A frame counts whose pass ends so soon.
const (
	ShortLife = 100 * time.Millisecond // unless said otherwise in the paper
	LongLife  = 400 * time.Millisecond // of its table 3
)

// FeedsOutcome is what became of a workload on a device.
type FeedsOutcome struct {
	FrameShares
	Gap    float64 // longest time that any model went without a frame, in seconds
	Loaded float64 // bytes a second
	Busy   float64 // share of the time in which the device computed
}

// Feeds is a workload on a device: one unit that computes, one channel that loads weights, memory that does not hold all
// models, and frames that die at a deadline.
type Feeds struct {
	Workload Workload
	Memory   Memory
	Sharing  Sharing
	Lives    time.Duration // a frame; 0: ShortLife
	ByModel  bool          // weights come and go with all that the same models have, not by tensor
	Seed     uint64
}

// Run simulates the setting under the real scheduler.
func (f Feeds) Run() (*FeedsOutcome, error) {
	core, err := sim.NewCore(scheduler.DefaultConfig())
	if err != nil {
		return nil, err
	}
	return f.newArrivals().simulate(core)
}

// feedArrivals are the frames of a setting, and its device: they are the same under every order.
type feedArrivals struct {
	Feeds
	device   sim.Executor
	chunks   []piece
	phases   []time.Duration // by model
	requests []sim.Request
}

func (f Feeds) newArrivals() *feedArrivals {
	f.Lives = cmp.Or(f.Lives, ShortLife)
	grain := byTensor
	if f.ByModel {
		grain = byModel
	}
	a := &feedArrivals{Feeds: f, chunks: f.Workload.weightChunks(f.Sharing, grain)}
	a.device = a.newDevice()
	rng := rand.New(rand.NewPCG(f.Seed, 17))
	phases := map[string]float64{}
	for i, e := range f.Workload.models {
		if _, ok := phases[e.Feed]; !ok {
			phases[e.Feed] = rng.Float64() / rate
		}
		a.phases = append(a.phases, secondsToDuration(phases[e.Feed]))
		for n := 0; ; n++ {
			at := secondsToDuration(phases[e.Feed] + float64(n)/rate)
			if at >= span {
				break
			}
			a.requests = append(a.requests, sim.Request{At: at, Model: a.device.Models[i].Name, Stream: e.Feed, Frames: 1, Deadline: f.Lives})
		}
	}
	slices.SortStableFunc(a.requests, func(q, r sim.Request) int { return cmp.Compare(q.At, r.At) })
	return a
}

// newDevice makes what the models share. The scheduler is told the line that is nearest to what their passes take.
func (a *feedArrivals) newDevice() sim.Executor {
	capacity := a.Workload.deviceCapacity(a.Memory)
	e := sim.Executor{Name: "device", Memory: uint64(capacity), Aside: true}
	archs := architecturesByName()
	all, seconds := 0.0, 0.0
	for i, m := range a.Workload.models {
		arch := archs[m.Architecture]
		most := arch.largestBatch(capacity, a.Lives)
		e.Models = append(e.Models, sim.Model{
			Name: fmt.Sprint(i, " ", m.Architecture), Cost: arch.cost(), Batches: arch.run[:], Frames: most, Work: uint64(arch.area[most-1]), LoadRate: arch.rate,
		})
		all += float64(arch.weights)
		seconds += float64(arch.weights) / arch.rate
	}
	e.LoadRate = all / seconds
	for c, p := range a.chunks {
		e.Weights = append(e.Weights, uint64(p.bytes))
		for _, i := range p.models {
			e.Models[i].Pieces = append(e.Models[i].Pieces, uint32(c))
		}
	}
	return e
}

// cost is the least squares line through what passes take.
func (a *architecture) cost() sim.Cost {
	const mean = (1 + maxBatch) / 2.0
	sum, slope, squares := 0.0, 0.0, 0.0
	for i, t := range a.run {
		x := float64(i+1) - mean
		sum += t.Seconds()
		slope += x * t.Seconds()
		squares += x * x
	}
	c := sim.Cost{Token: max(slope/squares, 1e-6)} // 0 would say that it is not known
	c.Base = sum/maxBatch - c.Token*mean
	return c
}

// largestBatch is the most frames that a pass of the model can serve, if it comes at the right time, and has room for.
func (a *architecture) largestBatch(capacity int64, lives time.Duration) int {
	n := 1
	for b := 2; b <= maxBatch; b++ {
		if a.run[b-1]+secondsToDuration(float64(b-1)/rate) <= lives && a.weights+a.area[b-1] <= capacity {
			n = b
		}
	}
	return n
}

// simulate runs the frames under a scheduler.
func (a *feedArrivals) simulate(s sim.Scheduler) (*FeedsOutcome, error) {
	var requests iter.Seq[sim.Request] = slices.Values(a.requests)
	out, err := sim.World{Scheduler: s, Executors: []sim.Executor{a.device}, Requests: requests, Until: span}.Run()
	if err != nil {
		return nil, err
	}
	number := map[string]int{}
	for i, m := range a.device.Models {
		number[m.Name] = i
	}
	answered, served := make([][]time.Duration, len(number)), make([][]bool, len(number))
	for _, r := range out.Records {
		i := number[r.Model]
		inTime := r.Done > 0 && r.Code == 0 && r.Latency() <= a.Lives
		served[i] = append(served[i], inTime)
		if inTime {
			answered[i] = append(answered[i], r.Done)
		}
	}
	o := &FeedsOutcome{Loaded: float64(out.Loaded[0]) / span.Seconds(), Busy: out.Busy[0].Seconds() / span.Seconds()}
	for i, times := range answered {
		o.add(served[i][:int((span-a.phases[i]).Seconds()*rate)], rate)
		slices.Sort(times)
		last := time.Duration(0)
		for _, at := range append(times, span) {
			o.Gap, last = max(o.Gap, (at-last).Seconds()), at
		}
	}
	return o, nil
}
