package presets

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/sim/host"
	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// Stages are requests with CPU stages and passes, and cameras beside them, on two processors.
type Stages struct {
	Name     string
	Load     float64  // of the processors, by all
	Clients  []Client // of the requests
	Cameras  int      // of ten frames a second, whose deadline is a period
	Requests int
	Traces   int     // that are drawn
	Gap      float64 // seconds between requests, on average; they are Poisson
	Threads  int     // of the processors that passes compute with; 0: the device is apart
}

func (s Stages) String() string { return fmt.Sprintf("%s %.2f", s.Name, s.Load) }

// Client is a kind of request.
type Client struct {
	Kind  string
	Share float64     // of the requests
	Goals []float64   // seconds, of its priorities, which are drawn alike
	Parts []host.Part // of a mean request
}

// LateBy is how many times its goal a request may take before it is counted as late.
const LateBy = 1.1

// stageSpread is the standard deviation of what a part takes, of its mean; it is lognormal.
const stageSpread = 0.3

const (
	stageProcessors = 2
	frameKind       = "frame"
	cameraPeriod    = 100 * time.Millisecond
	frameTakes      = 6 * time.Millisecond
)

func cpu(kind string, seconds float64) host.Part {
	return host.Part{Kind: kind, Takes: secondsToDuration(seconds)}
}

func pass(kind string, seconds float64) host.Part {
	p := cpu(kind, seconds)
	p.Device = true
	return p
}

// Draw makes the requests and frames of a setting.
func (s Stages) Draw(seed uint64) []host.Request {
	rng := rand.New(rand.NewPCG(seed, 31))
	var list []host.Request
	at := 0.
	for range s.Requests {
		at += rng.ExpFloat64() * s.Gap
		list = append(list, s.drawClient(rng).draw(rng, secondsToDuration(at)))
	}
	for range s.Cameras {
		frame := Client{Kind: frameKind, Goals: []float64{cameraPeriod.Seconds() / LateBy}, Parts: []host.Part{cpu("frame", frameTakes.Seconds())}}
		for t := rng.Float64() * cameraPeriod.Seconds(); t < at; t += cameraPeriod.Seconds() {
			list = append(list, frame.draw(rng, secondsToDuration(t)))
		}
	}
	slices.SortStableFunc(list, func(a, b host.Request) int { return int(a.At - b.At) })
	return list
}

func (s Stages) drawClient(rng *rand.Rand) Client {
	u := rng.Float64()
	for _, c := range s.Clients[:len(s.Clients)-1] {
		if u -= c.Share; u < 0 {
			return c
		}
	}
	return s.Clients[len(s.Clients)-1]
}

func (c Client) draw(rng *rand.Rand, at time.Duration) host.Request {
	r := host.Request{At: at, Kind: c.Kind, Within: secondsToDuration(LateBy * c.Goals[rng.IntN(len(c.Goals))])}
	deviation := math.Sqrt(math.Log(1 + stageSpread*stageSpread))
	for _, p := range c.Parts {
		p.Took = time.Duration(float64(p.Takes) * math.Exp(deviation*rng.NormFloat64()-deviation*deviation/2))
		r.Parts = append(r.Parts, p)
	}
	return r
}

// photo is a picture of 12 megapixels in which text is read, with a device apart from the processors.
var photo = Client{Kind: "photo", Share: 1, Goals: []float64{1.5, 2.5, 3.5, 4.5}, Parts: []host.Part{
	cpu("decode", .1), pass("detect", .015), cpu("crop", .02), pass("recognise", .01), cpu("read", .001),
}}

// heavyPhoto is one whose passes the processors compute; they take so much of one.
var heavyPhoto = Client{Kind: "photo", Share: 1, Goals: photo.Goals, Parts: []host.Part{
	photo.Parts[0], pass("detect", .25), photo.Parts[2], pass("recognise", .2), photo.Parts[4],
}}

// image and audio are the report's clients, by the medians of its stages.
var (
	image = Client{Kind: "image", Share: 1, Goals: []float64{3, 5, 7, 9}, Parts: []host.Part{
		cpu("preprocess", .08), pass("detect", .13), cpu("crop", .22), pass("recognise", .03), cpu("read", .001),
	}}
	audio = Client{Kind: "audio", Share: 1, Goals: []float64{6, 8, 10, 12}, Parts: []host.Part{
		interruptible(cpu("load", .9)), interruptible(cpu("transform", 2.45)), pass("speech", .1), cpu("spell", .01),
	}}
)

// interruptible is a stage that does its work piece by piece.
func interruptible(p host.Part) host.Part {
	p.Chunk = 50 * time.Millisecond
	return p
}

// withGoals is c with its goals divided, and of a share of the requests.
func (c Client) withGoals(divided, share float64) Client {
	c.Share, c.Goals = share, slices.Clone(c.Goals)
	for i := range c.Goals {
		c.Goals[i] /= divided
	}
	return c
}

// processorSeconds is what a mean request takes of the processors.
func (s Stages) processorSeconds() (sum float64) {
	for _, c := range s.Clients {
		for _, p := range c.Parts {
			if !p.Device || s.Threads > 0 {
				sum += c.Share * p.Takes.Seconds()
			}
		}
	}
	return sum
}

// cameraLoad is how many processors the cameras need.
func (s Stages) cameraLoad() float64 {
	return float64(s.Cameras) * frameTakes.Seconds() / cameraPeriod.Seconds()
}

// withLoad sets the gap by the load, or the load by the gap.
func (s Stages) withLoad() Stages {
	if s.Gap == 0 {
		s.Gap = s.processorSeconds() / (stageProcessors*s.Load - s.cameraLoad())
	} else {
		s.Load = (s.processorSeconds()/s.Gap + s.cameraLoad()) / stageProcessors
	}
	return s
}

// StageSettings are the report's settings, overload by photos beside cameras, with a device apart and without, and a mixture of short
// and long requests.
func StageSettings() []Stages {
	mixed := []Client{image.withGoals(3, .85), audio.withGoals(3, .15)}
	list := []Stages{
		{Name: "A1", Clients: []Client{image}, Gap: .3, Requests: 60, Traces: 400},
		{Name: "A2", Clients: []Client{image}, Gap: .25, Requests: 60, Traces: 400},
		{Name: "B1", Clients: []Client{audio}, Gap: 5, Requests: 60, Traces: 400},
		{Name: "mixed", Clients: mixed, Load: .76, Requests: 600, Traces: 6},
		{Name: "mixed", Clients: mixed, Load: 1.09, Requests: 600, Traces: 6},
	}
	for _, load := range []float64{.6, .92, 1.13, 1.47} {
		list = append(list, Stages{Name: "photos", Load: load, Clients: []Client{photo}, Cameras: 2, Requests: 600, Traces: 6})
	}
	for _, load := range []float64{.85, 1.1} {
		list = append(list, Stages{Name: "photos-no-device", Load: load, Clients: []Client{heavyPhoto}, Cameras: 2, Requests: 600, Traces: 6, Threads: stageProcessors})
	}
	for i := range list {
		list[i] = list[i].withLoad()
	}
	return list
}

// StageSystem is a way to give processors to stages.
type StageSystem struct {
	Name string
	host.System
}

// lostCause is the published threshold.
const lostCause = 10 * time.Second

// Ours is the name of this project's order. Without express, short stages have no slot more; by its own stage, an asker does not say
// what its request needs afterwards.
const Ours = "on-time"

// Systems are those of the report, and ours, which leaves alone the processors that passes compute with.
func (s Stages) Systems() []StageSystem {
	list := []StageSystem{{"sequential", host.System{Sequential: true}}, {"os", host.System{Free: true}}}
	for _, of := range []struct {
		policy stages.Policy
		slots  []int
	}{{stages.FIFO, []int{1, 2}}, {stages.SLO, []int{1, 2, 4, 6}}, {stages.EDF, []int{2}}} {
		for _, slots := range of.slots {
			system := host.System{Slots: stages.Parameters{Slots: slots, Policy: of.policy, LostCause: lostCause}}
			list = append(list, StageSystem{fmt.Sprintf("%s cap %d", of.policy, slots), system})
		}
	}
	ours := host.System{
		Slots: stages.Parameters{Slots: max(1, stageProcessors-s.Threads), Policy: stages.OnTime, Express: true}, Rest: true, Yields: true,
	}
	plain, alone := ours, ours
	plain.Slots.Express = false
	alone.Rest = false
	return append(list, StageSystem{Ours + " no express", plain}, StageSystem{Ours + " own stage", alone}, StageSystem{Ours, ours})
}

// StagesOutcome is what became of the requests of all traces.
type StagesOutcome struct {
	Requests, Late, Unanswered int // but for frames
	Frames, LateFrames         int
	Latency                    time.Duration // mean of what was answered
	Spent, Wasted              time.Duration // of processors, and of that on what was late
}

// Run plays the traces of a setting.
func (s Stages) Run(system host.System, seed uint64) (o StagesOutcome) {
	var answered time.Duration
	for trace := range s.Traces {
		for _, r := range s.Play(system, seed+uint64(trace)) {
			o.count(r)
			if r.Kind != frameKind {
				answered += r.Latency
			}
		}
	}
	o.Latency = answered / time.Duration(max(1, o.Requests-o.Unanswered))
	return o
}

// Play plays one trace.
func (s Stages) Play(system host.System, seed uint64) []*host.Record {
	return host.Host{Processors: stageProcessors, Threads: s.Threads}.Run(system, slices.Values(s.Draw(seed)))
}

func (o *StagesOutcome) count(r *host.Record) {
	spent := r.Processors()
	o.Spent += spent
	late := 0
	if r.Late() {
		late = 1
		o.Wasted += spent
	}
	if r.Kind == frameKind {
		o.Frames++
		o.LateFrames += late
		return
	}
	o.Requests++
	o.Late += late
	if !r.Answered {
		o.Unanswered++
	}
}

func percent(part, of float64) float64 { return 100 * part / max(1, of) }

// LateShare is how many of a hundred requests were late or not answered.
func (o StagesOutcome) LateShare() float64 { return percent(float64(o.Late), float64(o.Requests)) }

// UnansweredShare is how many of a hundred requests were refused or dropped.
func (o StagesOutcome) UnansweredShare() float64 {
	return percent(float64(o.Unanswered), float64(o.Requests))
}

// LateFrameShare is how many of a hundred frames were.
func (o StagesOutcome) LateFrameShare() float64 {
	return percent(float64(o.LateFrames), float64(o.Frames))
}

// WastedShare is how much of a hundred seconds of the processors went to what was late.
func (o StagesOutcome) WastedShare() float64 { return 100 * o.Wasted.Seconds() / o.Spent.Seconds() }
