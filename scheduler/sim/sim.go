// Package sim drives the real scheduler with a virtual clock and executors made of a cost model: the
// same requests give the same bytes, and hours pass in seconds.
package sim

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
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

	// On executors of many models:
	Model    string
	Frames   float64 // of work, in place of a prompt
	Stream   string
	Promised bool
}

// Record is what became of one request.
type Record struct {
	Model  string
	Stream string
	At     time.Duration
	Done   time.Duration
	Tokens int
	Cached int         // prompt tokens found in the prefix cache
	Code   engine.Code // 0 if it was answered
}

// Latency is the time from arrival to answer.
func (r Record) Latency() time.Duration { return r.Done - r.At }

// Outcome is what a simulation found.
type Outcome struct {
	Records []Record // in order of arrival
	Span    time.Duration
	Busy    []time.Duration // of each executor
	Stats   wire.Stats
	Models  []wire.ModelStats // that had a request
}

// tick is how often the scheduler is told of the time.
const tick = time.Second

// world is the state of one simulation.
type world struct {
	core    *scheduler.Core
	now     time.Duration
	events  events
	order   uint64
	devices map[scheduler.PeerID]*device
	records []Record
	index   map[engine.JobID]int // of the open jobs
	later   map[engine.JobID]time.Duration
	stats   wire.Stats
	models  []wire.ModelStats
}

// Run simulates the requests on the executors under a scheduler of the given configuration, until
// all are answered or refused. It fails where the scheduler breaks the protocol or leaves a request
// unanswered.
func Run(config scheduler.Config, executors []Executor, requests iter.Seq[Request]) (*Outcome, error) {
	config.PeerTimeout = 1 << 62 // peers of a simulation send no heartbeats
	config.MaxQueuedJobs, config.MaxQueuedTokens = 1<<40, 1<<60
	core, err := scheduler.NewCore(config, 1)
	if err != nil {
		return nil, err
	}
	w := &world{core: core, devices: map[scheduler.PeerID]*device{}, index: map[engine.JobID]int{}, later: map[engine.JobID]time.Duration{}}
	if err := w.stepScheduler(frontend, &wire.Hello{Role: wire.RoleFrontend, Name: frontend, Epoch: 1}); err != nil {
		return nil, err
	}
	for _, e := range executors {
		e.Stages = max(1, e.Stages)
		w.devices[scheduler.PeerID(e.Name)] = &device{Executor: e, passes: map[wire.PassID]*pass{}, noise: rand.New(rand.NewPCG(1, uint64(len(w.devices))))}
		for range 1 + min(len(e.Models), 1) { // the second one has heard the Welcome: weights are loaded then
			if err := w.stepScheduler(scheduler.PeerID(e.Name), e.newHello()); err != nil {
				return nil, err
			}
		}
	}
	if err := w.run(requests); err != nil {
		return nil, fmt.Errorf("at %v: %w", w.now, err)
	}
	if err := w.stepScheduler(frontend, &wire.Hello{Role: wire.RoleFrontend, Name: frontend, Epoch: 1}); err != nil {
		return nil, err // its Welcome brings the counters
	}
	out := &Outcome{Records: w.records, Stats: w.stats, Models: w.models}
	for _, r := range w.records {
		out.Span = max(out.Span, r.Done)
	}
	for _, e := range executors {
		out.Busy = append(out.Busy, w.devices[scheduler.PeerID(e.Name)].busy)
	}
	return out, nil
}

// frontend is the name of the one frontend.
const frontend = "frontend"

// mostIdle is how many ticks nothing may happen while requests wait: a model may be kept for those that it expects.
const mostIdle = 3600

func (w *world) run(requests iter.Seq[Request]) error {
	next, stop := iter.Pull(requests)
	defer stop()
	request, more := next()
	nextTick, idle := tick, 0
	for more || len(w.index) > 0 {
		at, ok := w.nextEvent()
		wake, due := w.core.Wake()
		var err error
		idle++
		switch {
		case due && (!ok || wake <= at) && (!more || wake <= request.At):
			w.now = max(w.now, wake)
			err = w.stepScheduler("", nil)
		case more && (!ok || request.At <= at):
			w.now = max(w.now, request.At)
			err = w.submitRequest(request)
			request, more = next()
		case ok:
			w.now, idle = at, 0
			err = w.fireEvent()
		case idle > mostIdle:
			return fmt.Errorf("%d requests will never be answered: no executor has anything to do", len(w.index))
		default:
			w.now = nextTick
		}
		if err != nil {
			return err
		}
		if w.now >= nextTick {
			nextTick = w.now + tick
			if err := w.stepScheduler("", &wire.Tick{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) submitRequest(q Request) error {
	id := engine.JobID(len(w.records) + 1)
	w.index[id] = len(w.records)
	w.records = append(w.records, Record{Model: q.Model, Stream: q.Stream, At: q.At, Tokens: len(q.Tokens)})
	j := engine.Job{
		ID: id, Model: cmp.Or(q.Model, modelName), User: q.User, Deadline: q.Deadline, Stream: q.Stream, Promised: q.Promised,
		Work: &engine.Tokens{IDs: q.Tokens, Max: 1},
	}
	if q.Frames > 0 {
		j.Work = &engine.Tensors{Frames: q.Frames}
	}
	return w.stepScheduler(frontend, &wire.Submit{Job: j})
}

// nextEvent drops cancelled events and returns when the first other one is due.
func (w *world) nextEvent() (time.Duration, bool) {
	for len(w.events) > 0 {
		if w.events[0].msg != nil {
			return w.events[0].at, true
		}
		heap.Pop(&w.events)
	}
	return 0, false
}

func (w *world) fireEvent() error {
	e := heap.Pop(&w.events).(*event)
	switch m := e.msg.(type) {
	case *wire.Done:
		e.from.ended(w, m)
	case *wire.Loaded:
		e.from.loading = false
	}
	return w.stepScheduler(scheduler.PeerID(e.from.Name), e.msg)
}

// stepScheduler lets the scheduler handle one message and delivers what it sends.
func (w *world) stepScheduler(from scheduler.PeerID, msg wire.Message) error {
	for _, e := range w.core.Step(w.now, from, msg) {
		if d := w.devices[e.To]; d != nil {
			if err := d.receiveMessage(w, e.Msg); err != nil {
				return err
			}
			continue
		}
		switch m := e.Msg.(type) {
		case *wire.Result:
			w.recordAnswer(m)
		case *wire.Welcome:
			w.stats, w.models = m.Pool, m.Stats
		}
	}
	return nil
}

func (w *world) recordAnswer(m *wire.Result) {
	i, ok := w.index[m.Job]
	if !ok || (m.Finish == engine.FinishNone && m.Err == nil) {
		return
	}
	r := &w.records[i]
	r.Done = max(w.now, w.later[m.Job])
	if out, ok := m.Output.(*engine.TokenOutput); ok {
		r.Cached = out.Cached
	}
	if m.Err != nil {
		r.Code = m.Err.Code
	}
	delete(w.index, m.Job)
	delete(w.later, m.Job)
}

// delayAnswer says that a job's answer comes out of its pipeline no earlier than at.
func (w *world) delayAnswer(job engine.JobID, at time.Duration) { w.later[job] = at }

// event is an answer of an executor at a time to come; a nil msg marks a cancelled one.
type event struct {
	at    time.Duration
	order uint64 // breaks ties
	from  *device
	msg   wire.Message
}

func (w *world) scheduleAfter(d time.Duration, from *device, msg wire.Message) *event {
	w.order++
	e := &event{at: w.now + d, order: w.order, from: from, msg: msg}
	heap.Push(&w.events, e)
	return e
}

// events is a heap by time.
type events []*event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(*event)) }
func (h *events) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
