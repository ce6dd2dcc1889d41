package sim

import (
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler"
)

// Order decides what one executor loads and runs, in the scheduler's place: it is another engine's schedule. Decide is asked
// whenever something has happened, and knows of all that has happened at that time.
type Order interface {
	Decide(d *Desk)
}

// Desk is a Scheduler of one executor that follows an Order: it speaks the scheduler's protocol and decides nothing.
type Desk struct {
	Now     time.Duration
	Arrived []*Job // since the last Decide, in that order
	Running bool   // a pass
	Loading bool   // weights

	order    Order
	executor scheduler.PeerID
	models   []string
	numbers  map[string]int
	serial   uint64
	changed  bool
	out      []scheduler.Envelope
}

// Job is a request that waits at a Desk.
type Job struct {
	ID       engine.JobID
	Model    int // its position on the executor
	At       time.Duration
	Deadline time.Duration // 0: none
	work     engine.Work
	late     wire.Result
}

// NewDesk makes the scheduler that follows an order.
func NewDesk(o Order) *Desk { return &Desk{order: o, numbers: map[string]int{}} }

// Wake implements Scheduler.
func (d *Desk) Wake() (time.Duration, bool) { return d.Now, d.changed }

// Step implements Scheduler.
func (d *Desk) Step(now time.Duration, from scheduler.PeerID, msg wire.Message) []scheduler.Envelope {
	d.Now, d.out = now, d.out[:0]
	switch m := msg.(type) {
	case *wire.Hello:
		if m.Executor == nil || d.executor == from {
			break
		}
		d.executor = from
		for i, info := range m.Executor.Models {
			d.models, d.numbers[info.Name] = append(d.models, info.Name), i
		}
	case *wire.Submit:
		j := &Job{ID: m.ID, Model: d.numbers[m.Model], At: now, work: m.Work}
		if m.Deadline > 0 {
			j.Deadline = now + m.Deadline
		}
		d.Arrived, d.changed = append(d.Arrived, j), true
	case *wire.Done:
		d.Running, d.changed = false, true
		for _, it := range m.Items {
			d.sendMessages(frontend, &wire.Result{Job: it.Job, Output: it.Output, Finish: engine.FinishLength})
		}
	case *wire.Loaded:
		d.Loading, d.changed = false, true
	case nil:
		if d.changed {
			d.changed = false
			d.order.Decide(d)
			d.Arrived = d.Arrived[:0]
		}
	}
	return d.out
}

func (d *Desk) sendMessages(to scheduler.PeerID, m wire.Message) {
	d.out = append(d.out, scheduler.Envelope{To: to, Msg: m})
}

// Run begins a pass of jobs of one model.
func (d *Desk) Run(jobs ...*Job) {
	d.serial++
	d.Running = true
	m := &wire.Run{Pass: wire.PassID(d.serial), Model: d.models[jobs[0].Model]}
	for _, j := range jobs {
		m.Items = append(m.Items, wire.RunItem{Job: j.ID, Work: itemOf(j.work)})
	}
	d.sendMessages(d.executor, m)
}

func itemOf(w engine.Work) wire.ItemWork {
	switch w := w.(type) {
	case *engine.Tensors:
		return &wire.TensorItem{Tensors: *w}
	case *engine.Tokens:
		return &wire.TokenItem{Tokens: w.IDs}
	}
	return nil
}

// Load begins to load weights of a model.
func (d *Desk) Load(model int, weights []uint32) {
	d.serial++
	d.Loading = true
	d.sendMessages(d.executor, &wire.Load{Serial: d.serial, Model: d.models[model], Weights: weights})
}

// Drop frees weights.
func (d *Desk) Drop(weights []uint32) {
	if len(weights) > 0 {
		d.sendMessages(d.executor, &wire.Drop{Weights: weights})
	}
}

// Expire answers jobs that could not be in time any more.
func (d *Desk) Expire(jobs []*Job) {
	for _, j := range jobs {
		j.late = wire.Result{Job: j.ID, Err: errLate}
		d.sendMessages(frontend, &j.late)
	}
}

var errLate = engine.Errorf(engine.CodeDeadline, "it would be late")
