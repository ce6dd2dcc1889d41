// Package cameras simulates one device that a language model, camera streams whose deadlines are promised, and gradients
// share, under the real scheduler.
package cameras

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler"
)

// Setting is what a simulation is of. Times are those of the device's cost model; what passes take is within 5 % of it.
type Setting struct {
	Cameras  int
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

// Outcome is what became of the jobs.
type Outcome struct {
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
func (o *Outcome) Share(s Setting) float64 {
	alone := float64(s.Prompt) / llmSeconds(s.Prompt)
	return float64(o.Tokens) / (alone * (o.Seconds - o.Frames - o.Slopes))
}

// Use is the share of the device that frames took.
func (o *Outcome) Use() float64 { return o.Frames / o.Seconds }

func llmSeconds(n int) float64 {
	return llmBase.Seconds() + llmToken*float64(n) + llmPair*float64(n)*float64(n)/2
}

// longestStep is the longest step of a prompt's pass.
func (s Setting) longestStep() time.Duration {
	layer := llmSeconds(s.Prompt) / layers
	if s.Chunk == 0 || s.Chunk >= s.Prompt {
		return secondsToDuration(layer)
	}
	n, c := float64(s.Prompt), float64(s.Chunk)
	last := llmToken*c + llmPair*c*(n-c/2) // attends to all before it
	return secondsToDuration(last / layers)
}

func secondsToDuration(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// world is the state of a simulation.
type world struct {
	Setting
	core   *scheduler.Core
	rng    *rand.Rand
	now    time.Duration
	device device
	jobs   map[engine.JobID]job
	last   engine.JobID
	out    Outcome
	inbox  []message
}

// job is one that has no answer yet.
type job struct {
	kind     kind
	promised bool
	at       time.Duration
	deadline time.Duration
}

type kind int

const (
	prompt kind = iota
	frame
	gradient
)

type message struct {
	from scheduler.PeerID
	msg  wire.Message
}

const (
	web, gpu       = "web", "gpu"
	llm, detector  = "llm", "detector"
	tick           = time.Second
	settle         = time.Second // is not counted
	gradientWithin = time.Second // within which a gradient is wanted
)

// Run simulates a setting.
func Run(s Setting) (*Outcome, error) {
	config := scheduler.DefaultConfig()
	config.PeerTimeout, config.PrefixCaching = 1<<62, false
	core, err := scheduler.NewCore(config, 1)
	if err != nil {
		return nil, err
	}
	w := &world{Setting: s, core: core, rng: rand.New(rand.NewPCG(s.Seed, 5)), jobs: map[engine.JobID]job{}}
	w.out.Step = s.longestStep()
	w.device.world = w
	w.tell(web, &wire.Hello{Role: wire.RoleFrontend, Name: web, Epoch: 1})
	for range 2 {
		w.tell(gpu, w.newHello())
	}
	for range openPrompt {
		w.submitJob(prompt, "")
	}
	next, stop := iter.Pull2(w.arrivalEvents())
	defer stop()
	at, arrive, more := next()
	ticks := tick
	for more {
		due, fire := w.device.nextEvent()
		if fire == nil && len(w.jobs) == 0 {
			return nil, errors.New("nothing runs and nothing waits")
		}
		if fire != nil && due <= at {
			w.now = due
			fire()
		} else {
			w.now = at
			arrive()
			at, arrive, more = next()
		}
		if w.now >= ticks {
			ticks = w.now + tick
			w.tell("", &wire.Tick{})
		}
		if err := w.device.err; err != nil {
			return nil, fmt.Errorf("at %v: %w", w.now, err)
		}
	}
	w.out.Seconds = (w.now - settle).Seconds()
	return &w.out, nil
}

// arrivalEvents yields the times of frames and gradients, and what happens then.
func (w *world) arrivalEvents() iter.Seq2[time.Duration, func()] {
	return func(yield func(time.Duration, func()) bool) {
		period, gradients := secondsToDuration(1/w.Rate), 0
		next := make([]time.Duration, w.Cameras+1)
		for i := range next {
			next[i] = time.Duration(w.rng.Int64N(int64(period)))
		}
		for end := settle + time.Duration(w.Seconds)*time.Second; ; {
			first := 0
			for i := range next {
				if next[i] < next[first] && (i < w.Cameras || w.Gradient > 0) {
					first = i
				}
			}
			at := next[first]
			if at > end {
				return
			}
			do := func() { w.submitJob(frame, fmt.Sprintf("camera-%d", first)) }
			next[first] += period
			if first == w.Cameras {
				stream := fmt.Sprintf("camera-%d/gradient", gradients%w.Cameras)
				if w.Plain {
					stream = ""
				}
				do = func() { w.submitJob(gradient, stream) }
				next[first] = at + secondsToDuration(1/w.Gradient)
				gradients++
			}
			if !yield(at, do) {
				return
			}
		}
	}
}

// isCounting says whether what happens now is counted.
func (w *world) isCounting() bool { return w.now >= settle }

// submitJob sends a job of a kind.
func (w *world) submitJob(k kind, stream string) {
	w.last++
	m := engine.Job{ID: w.last, Model: detector}
	switch k {
	case prompt:
		tokens := make([]engine.TokenID, w.Prompt)
		m.Model, m.Work = llm, &engine.Tokens{IDs: tokens, Max: 1}
	case frame:
		m.Stream, m.Promised, m.Deadline = stream, true, secondsToDuration(1/w.Rate)
		m.Work = &engine.Tensors{Inputs: []engine.Ref{{Name: "images"}}, Frames: 1}
	case gradient:
		m.Deadline = gradientWithin
		if m.Stream, m.Promised, m.Priority = stream, true, 1; stream == "" {
			m.Promised = false
		}
		m.Work = &engine.Tensors{Inputs: []engine.Ref{{Name: "images"}}, Frames: 1 + backward, Grad: &engine.Grad{Inputs: []string{"images"}}}
	}
	w.jobs[m.ID] = job{kind: k, promised: m.Promised, at: w.now, deadline: w.now + m.Deadline}
	w.tell(web, &wire.Submit{Job: m})
}

// tell gives the scheduler a message, and all that follows from it.
func (w *world) tell(from scheduler.PeerID, m wire.Message) {
	w.inbox = append(w.inbox, message{from, m})
	if len(w.inbox) > 1 {
		return // an outer call goes on with it
	}
	for len(w.inbox) > 0 {
		for _, e := range w.core.Step(w.now, w.inbox[0].from, w.inbox[0].msg) {
			if e.To == gpu {
				w.device.receiveMessage(e.Msg)
			} else if r, ok := e.Msg.(*wire.Result); ok {
				w.recordAnswer(r)
			}
		}
		w.inbox = w.inbox[1:]
	}
}

// recordAnswer takes an answer, or a refusal.
func (w *world) recordAnswer(r *wire.Result) {
	j, ok := w.jobs[r.Job]
	if !ok {
		return
	}
	delete(w.jobs, r.Job)
	switch {
	case j.kind == prompt:
		if r.Err != nil {
			w.device.err = r.Err
			return
		}
		if w.isCounting() {
			w.out.Tokens += w.Prompt
		}
		w.submitJob(prompt, "")
	case j.kind == gradient && j.promised && r.Err != nil && r.Err.Code == engine.CodeOverloaded:
		w.submitJob(gradient, "") // now it is promised nothing
	case !w.isCounting():
	case j.kind == gradient && r.Err == nil && w.now <= j.deadline:
		w.out.Gradients++
	case j.kind == gradient:
		w.out.LateGradients++
	case j.kind == frame && r.Err != nil && r.Err.Code == engine.CodeOverloaded:
		w.out.Refused++
	case j.kind == frame:
		w.out.Admitted++
		if r.Err != nil || w.now > j.deadline {
			w.out.Late++
		}
		w.out.Worst = max(w.out.Worst, w.now-j.at)
	}
}

// newHello is what the device says of itself.
func (w *world) newHello() *wire.Hello {
	unit := w.Frame - frameBase
	return &wire.Hello{Role: wire.RoleExecutor, Name: gpu, Epoch: 1, Executor: &wire.ExecutorInfo{
		Device: gpu, Nests: true,
		Models: []wire.ModelInfo{
			{
				Name: llm, Fingerprint: llm, Step: w.longestStep(), Cost: wire.Cost{Base: llmBase, Unit: secondsToDuration(llmToken), Pair: llmPair},
				Tokens: &wire.TokenLimits{VocabSize: 1 << 17, MaxModelLen: 1 << 18, BlockTokens: 64, NumBlocks: 1, MaxPassRows: 1 << 18},
			},
			{
				Name: detector, Fingerprint: detector, Step: w.Frame, Cost: wire.Cost{Base: frameBase, Unit: unit},
				Tensors: &wire.TensorLimits{MaxPassItems: 8, Backward: backward},
			},
		},
	}}
}
