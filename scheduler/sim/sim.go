// Package sim is a world of one virtual clock: requests arrive, executors made of a cost model answer at virtual times, and
// what decides between them is the real scheduler. The same requests give the same bytes, and hours pass in seconds.
//
// Another engine's schedule that the scheduler cannot express, because it knows what comes, turns the wheel whatever waits or
// loads whole models, is an Order: it takes the scheduler's place and its messages, on the same executors, beside the same
// arrivals. Settings and orders that are compared are in presets.
package sim

import (
	"cmp"
	"fmt"
	"iter"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler"
)

// Request is one request of a simulation.
type Request struct {
	At       time.Duration // not before the request that came before it
	User     string
	Tokens   []engine.TokenID // the prompt; kept until the request is done
	Deadline time.Duration    // from arrival; 0: none
	Priority int

	// On executors of many models:
	Model    string
	Frames   float64 // of work, in place of a prompt
	Gradient bool    // is wanted of the frames
	Stream   string
	Promised bool

	// Then, if not nil, says what its client sends at once when it has its answer; false: nothing.
	Then func(Record) (Request, bool)
}

// Record is what became of one request.
type Record struct {
	Model    string
	Stream   string
	Gradient bool
	At       time.Duration
	Done     time.Duration // 0: it had no answer when the simulation ended
	Tokens   int
	Cached   int           // prompt tokens found in the prefix cache
	Device   time.Duration // its part of the pass that computed it
	Pass     wire.PassID   // 0: none
	Nested   bool          // in another pass
	Code     engine.Code   // 0 if it was answered
}

// Latency is the time from arrival to answer.
func (r Record) Latency() time.Duration { return r.Done - r.At }

// Outcome is what a simulation found.
type Outcome struct {
	Records []Record // in order of arrival
	Span    time.Duration
	Busy    []time.Duration // of each executor
	Loaded  []uint64        // bytes of weights, by each executor
	Stats   wire.Stats
	Models  []wire.ModelStats // that had a request
}

// Scheduler is what decides in a World: a *scheduler.Core, or a Desk with the order of another engine.
type Scheduler interface {
	Step(now time.Duration, from scheduler.PeerID, msg wire.Message) []scheduler.Envelope
	Wake() (at time.Duration, ok bool)
}

// World is what is simulated.
type World struct {
	Scheduler Scheduler
	Executors []Executor
	Requests  iter.Seq[Request]
	Until     time.Duration // it ends then, whatever is open; 0: when all requests are answered or refused
}

// Run simulates the requests on the executors under a scheduler of the given configuration, until
// all are answered or refused. It fails where the scheduler breaks the protocol or leaves a request
// unanswered.
func Run(config scheduler.Config, executors []Executor, requests iter.Seq[Request]) (*Outcome, error) {
	core, err := NewCore(config)
	if err != nil {
		return nil, err
	}
	return World{Scheduler: core, Executors: executors, Requests: requests}.Run()
}

// NewCore makes the real scheduler of a configuration, without the limits that time and strangers set it.
func NewCore(config scheduler.Config) (*scheduler.Core, error) {
	config.PeerTimeout = 1 << 62 // peers of a simulation send no heartbeats
	config.MaxQueuedJobs, config.MaxQueuedTokens = 1<<40, 1<<60
	return scheduler.NewCore(config, 1)
}

// tick is how often the scheduler is told of the time.
const tick = time.Second

// world is the state of one simulation.
type world struct {
	loop
	scheduler Scheduler
	until     time.Duration
	inbox     []message
	devices   map[scheduler.PeerID]*device
	records   []Record
	jobs      []job // of the records
	open      int
	stats     wire.Stats
	models    []wire.ModelStats
}

// job is what is to be known of a request until its answer.
type job struct {
	open     bool
	earliest time.Duration // its answer comes out of a pipeline no earlier than that
	then     func(Record) (Request, bool)
}

// message is one to the scheduler.
type message struct {
	from scheduler.PeerID
	msg  wire.Message
}

// frontend is the name of the one frontend.
const frontend = "frontend"

// Run simulates the world.
func (s World) Run() (*Outcome, error) {
	w := &world{scheduler: s.Scheduler, until: s.Until, devices: map[scheduler.PeerID]*device{}}
	if err := w.tellScheduler(frontend, &wire.Hello{Role: wire.RoleFrontend, Name: frontend, Epoch: 1}); err != nil {
		return nil, err
	}
	for _, e := range s.Executors {
		w.devices[scheduler.PeerID(e.Name)] = newDevice(w, e)
		for range 1 + min(len(e.Models), 1) { // the second one has heard the Welcome: weights are loaded then
			if err := w.tellScheduler(scheduler.PeerID(e.Name), e.newHello()); err != nil {
				return nil, err
			}
		}
	}
	if err := w.runUntilDone(s.Requests); err != nil {
		return nil, fmt.Errorf("at %v: %w", w.now, err)
	}
	if err := w.tellScheduler(frontend, &wire.Hello{Role: wire.RoleFrontend, Name: frontend, Epoch: 1}); err != nil {
		return nil, err // its Welcome brings the counters
	}
	out := &Outcome{Records: w.records, Stats: w.stats, Models: w.models}
	for _, r := range w.records {
		out.Span = max(out.Span, r.Done)
	}
	for _, e := range s.Executors {
		d := w.devices[scheduler.PeerID(e.Name)]
		d.compute.accountTasks()
		out.Busy = append(out.Busy, d.compute.busy)
		out.Loaded = append(out.Loaded, d.loaded)
	}
	return out, nil
}

// mostIdle is how many ticks nothing may happen while requests wait: a model may be kept for those that it expects.
const mostIdle = 3600

// runUntilDone lets things happen in the order of their times: at one time requests come first, then executors answer, and a scheduler
// that wanted to be woken then knows of all of it.
func (w *world) runUntilDone(requests iter.Seq[Request]) error {
	next, stop := iter.Pull(requests)
	defer stop()
	request, more := next()
	nextTick, idle := tick, 0
	for more || w.open > 0 {
		at, ok := w.nextEvent()
		wake, due := w.scheduler.Wake()
		wake = max(w.now, wake)
		idle++
		when, do := nextTick, func() error { return nil }
		switch {
		case due && (!ok || wake < at) && (!more || wake < request.At):
			when, do = wake, func() error { return w.tellScheduler("", nil) }
		case more && (!ok || request.At <= at):
			q := request
			when, do = q.At, func() error { return w.submitRequest(q) }
			request, more = next()
		case ok:
			when, do, idle = at, w.fireEvent, 0
		case idle > mostIdle:
			return fmt.Errorf("%d requests will never be answered: no executor has anything to do", w.open)
		}
		if w.until > 0 && when >= w.until {
			return nil
		}
		w.now = max(w.now, when)
		if err := do(); err != nil {
			return err
		}
		if w.now >= nextTick {
			nextTick = w.now + tick
			if err := w.tellScheduler("", &wire.Tick{}); err != nil {
				return err
			}
		}
	}
	return nil
}

// submission is a message with the work that it most often has.
type submission struct {
	wire.Submit
	tensors engine.Tensors
}

func (w *world) submitRequest(q Request) error {
	id := engine.JobID(len(w.records) + 1)
	w.records = append(w.records, Record{Model: q.Model, Stream: q.Stream, Gradient: q.Gradient, At: w.now, Tokens: len(q.Tokens)})
	w.jobs = append(w.jobs, job{open: true, then: q.Then})
	w.open++
	m := &submission{}
	m.Job = engine.Job{
		ID: id, Model: cmp.Or(q.Model, modelName), User: q.User, Deadline: q.Deadline, Stream: q.Stream, Promised: q.Promised,
		Priority: q.Priority, Work: &m.tensors,
	}
	switch m.tensors.Frames = q.Frames; {
	case q.Gradient:
		inputs := []string{"frames"}
		m.tensors.Inputs, m.tensors.Grad = []engine.Ref{{Name: inputs[0]}}, &engine.Grad{Inputs: inputs}
	case q.Frames == 0:
		m.Work = &engine.Tokens{IDs: q.Tokens, Max: 1}
	}
	return w.tellScheduler(frontend, &m.Submit)
}

// tellScheduler gives the scheduler a message, and delivers what it sends: what that makes its clients send comes after it.
func (w *world) tellScheduler(from scheduler.PeerID, msg wire.Message) error {
	w.inbox = append(w.inbox, message{from, msg})
	if len(w.inbox) > 1 {
		return nil // an outer call goes on with it
	}
	for i := 0; i < len(w.inbox); i++ {
		for _, e := range w.scheduler.Step(w.now, w.inbox[i].from, w.inbox[i].msg) {
			if err := w.deliverMessage(e); err != nil {
				return err
			}
		}
	}
	w.inbox = w.inbox[:0]
	return nil
}

func (w *world) deliverMessage(e scheduler.Envelope) error {
	if d := w.devices[e.To]; d != nil {
		return d.receiveMessage(e.Msg)
	}
	switch m := e.Msg.(type) {
	case *wire.Result:
		return w.recordAnswer(m)
	case *wire.Welcome:
		w.stats, w.models = m.Pool, m.Stats
	}
	return nil
}

func (w *world) recordAnswer(m *wire.Result) error {
	i := int(m.Job) - 1
	if !w.jobs[i].open || (m.Finish == engine.FinishNone && m.Err == nil) {
		return nil
	}
	r := &w.records[i]
	r.Done = max(w.now, w.jobs[i].earliest)
	if out, ok := m.Output.(*engine.TokenOutput); ok {
		r.Cached = out.Cached
	}
	if m.Err != nil {
		r.Code = m.Err.Code
	}
	then := w.jobs[i].then
	w.jobs[i] = job{}
	w.open--
	if then == nil {
		return nil
	}
	if q, ok := then(*r); ok {
		return w.submitRequest(q)
	}
	return nil
}
