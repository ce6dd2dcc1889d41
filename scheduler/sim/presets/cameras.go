package presets

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler"
	"github.com/prefillonly/prefillonly/scheduler/sim"
)

// Cameras are streams whose deadlines are promised, and gradients, beside a language model on one device. Times are those of
// its cost model; what passes take is within 5 % of it.
type Cameras struct {
	Streams  int
	Rate     float64       // frames a second of each camera, whose deadline is a period
	Frame    time.Duration // of a detector's pass of one frame
	Gradient float64       // a second, of the cameras in turn; each takes Frame 2.2 times
	Plain    bool          // gradients are promised nothing
	Prompt   int           // tokens of the language model's prompts; four wait or run at any time
	Chunk    int           // rows of a step of the language model; 0: whole layers
	Seconds  int
	Seed     uint64
}

// An 8B model on an H200, by the rates of a whole pass: 47,000 tokens/s, and attention that makes 128k tokens take 9.1 s.
const (
	layers     = 32
	llmBase    = 4 * time.Millisecond
	llmToken   = 21.3e-6
	llmPair    = 7.3e-10
	frameBase  = 300 * time.Microsecond
	backward   = 1.2
	openPrompt = 4
	jitter     = 0.05
)

// CamerasOutcome is what became of the jobs.
type CamerasOutcome struct {
	Admitted, Late, Refused  int // frames: promised their deadline, of them not answered in time, and not promised
	Nested                   int // passes of frames inside others
	Gradients, LateGradients int // answered in time, and not
	Tokens                   int // of answered prompts
	Seconds                  float64
	Frames, Slopes           float64       // seconds of the device that frames and gradients took
	Step                     time.Duration // of the language model, the longest
	Worst                    time.Duration // time from a frame to its answer
}

// Share is the language model's throughput as a share of what the device could compute in the time that the others left.
func (o *CamerasOutcome) Share(s Cameras) float64 {
	alone := float64(s.Prompt) / llmSeconds(s.Prompt)
	return float64(o.Tokens) / (alone * (o.Seconds - o.Frames - o.Slopes))
}

// Use is the share of the device that frames took.
func (o *CamerasOutcome) Use() float64 { return o.Frames / o.Seconds }

// llmCost is what the language model's passes take.
var llmCost = sim.Cost{Base: llmBase.Seconds(), Token: llmToken, Pair: llmPair}

func llmSeconds(n int) float64 { return llmCost.Pass([]sim.Item{{Tokens: n}}).Seconds() }

// longestStep is the longest step of a prompt's pass.
func (s Cameras) longestStep() time.Duration {
	layer := llmSeconds(s.Prompt) / layers
	if s.Chunk == 0 || s.Chunk >= s.Prompt {
		return secondsToDuration(layer)
	}
	n, c := float64(s.Prompt), float64(s.Chunk)
	last := llmToken*c + llmPair*c*(n-c/2) // attends to all before it
	return secondsToDuration(last / layers)
}

func secondsToDuration(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

const (
	llm, detector  = "llm", "detector"
	settle         = time.Second // is not counted
	gradientWithin = time.Second // within which a gradient is wanted
)

// Run simulates the setting.
func (s Cameras) Run() (*CamerasOutcome, error) {
	config := scheduler.DefaultConfig()
	config.PrefixCaching = false
	core, err := sim.NewCore(config)
	if err != nil {
		return nil, err
	}
	a := &cameraArrivals{Cameras: s, rng: rand.New(rand.NewPCG(s.Seed, 5)), end: settle + time.Duration(s.Seconds)*time.Second}
	out, err := sim.World{Scheduler: core, Executors: []sim.Executor{s.device(a.rng)}, Requests: a.all(), Until: a.end + 1}.Run()
	if err != nil {
		return nil, err
	}
	return s.summarizeRecords(out.Records, a.last)
}

// device is what the models and the streams share.
func (s Cameras) device(rng *rand.Rand) sim.Executor {
	return sim.Executor{Name: "gpu",
		Nests: true, Noise: jitter, Random: rng,
		Models: []sim.Model{
			{Name: llm, Cost: llmCost, Step: s.longestStep(), MaxModelLen: 1 << 18, BlockTokens: 64, NumBlocks: 1, MaxPassRows: 1 << 18},
			{Name: detector, Cost: sim.Cost{Base: frameBase.Seconds(), Token: (s.Frame - frameBase).Seconds()}, Step: s.Frame, Frames: 8, Backward: backward},
		},
	}
}

// cameraArrivals makes the requests of a setting.
type cameraArrivals struct {
	Cameras
	rng  *rand.Rand
	end  time.Duration
	last time.Duration // when the last frame or gradient came
}

// all yields the prompts that are open from the first, each followed by another, then frames and gradients.
func (a *cameraArrivals) all() iter.Seq[sim.Request] {
	return func(yield func(sim.Request) bool) {
		for range openPrompt {
			if !yield(a.prompt()) {
				return
			}
		}
		next := make([]time.Duration, a.Streams+1) // of the gradients the last
		period, gradients := secondsToDuration(1/a.Rate), 0
		for i := range next {
			next[i] = time.Duration(a.rng.Int64N(int64(period)))
		}
		for {
			first := 0
			for i := range next {
				if next[i] < next[first] && (i < a.Streams || a.Gradient > 0) {
					first = i
				}
			}
			at := next[first]
			if at > a.end {
				return
			}
			q := a.frame(at, first)
			next[first] += period
			if first == a.Streams {
				q = a.gradient(at, gradients%a.Streams)
				next[first] = at + secondsToDuration(1/a.Gradient)
				gradients++
			}
			a.last = at
			if !yield(q) {
				return
			}
		}
	}
}

func (a *cameraArrivals) prompt() sim.Request {
	again := func(sim.Record) (sim.Request, bool) { return a.prompt(), true }
	return sim.Request{Model: llm, Tokens: make([]engine.TokenID, a.Prompt), Then: again}
}

func (a *cameraArrivals) frame(at time.Duration, camera int) sim.Request {
	return sim.Request{
		At: at, Model: detector, Stream: fmt.Sprintf("camera-%d", camera), Promised: true, Deadline: secondsToDuration(1 / a.Rate), Frames: 1,
	}
}

// gradient is one of a camera. If its deadline is not promised it is sent again, as a job that is promised nothing.
func (a *cameraArrivals) gradient(at time.Duration, camera int) sim.Request {
	q := sim.Request{At: at, Model: detector, Deadline: gradientWithin, Frames: 1 + backward, Gradient: true}
	if a.Plain {
		return q
	}
	plain := q
	q.Stream, q.Promised, q.Priority = fmt.Sprintf("camera-%d/gradient", camera), true, 1
	q.Then = func(r sim.Record) (sim.Request, bool) { return plain, r.Code == engine.CodeOverloaded }
	return q
}

// summarizeRecords counts what was answered from the time to settle on until the last arrival.
func (s Cameras) summarizeRecords(records []sim.Record, last time.Duration) (*CamerasOutcome, error) {
	o := &CamerasOutcome{Step: s.longestStep(), Seconds: (last - settle).Seconds()}
	nested := map[wire.PassID]bool{}
	for _, r := range records {
		if r.Done < settle || r.Done > last {
			continue
		}
		if r.Nested {
			nested[r.Pass] = true
		}
		switch {
		case r.Model == llm:
			if r.Code != 0 {
				return nil, fmt.Errorf("a prompt of %d tokens was refused: %s", r.Tokens, r.Code)
			}
			o.Tokens += r.Tokens
		case r.Gradient:
			o.countGradient(r)
		default:
			o.countFrame(r, secondsToDuration(1/s.Rate))
		}
	}
	o.Nested = len(nested)
	return o, nil
}

func (o *CamerasOutcome) countGradient(r sim.Record) {
	o.Slopes += r.Device.Seconds()
	switch {
	case r.Stream != "" && r.Code == engine.CodeOverloaded: // has been sent again
	case r.Code == 0 && r.Latency() <= gradientWithin:
		o.Gradients++
	default:
		o.LateGradients++
	}
}

func (o *CamerasOutcome) countFrame(r sim.Record, deadline time.Duration) {
	o.Frames += r.Device.Seconds()
	if r.Code == engine.CodeOverloaded {
		o.Refused++
		return
	}
	o.Admitted++
	if r.Code != 0 || r.Latency() > deadline {
		o.Late++
	}
	o.Worst = max(o.Worst, r.Latency())
}
