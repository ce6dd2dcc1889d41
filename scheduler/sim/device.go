package sim

import (
	"cmp"
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler"
)

// device is a simulated executor at work: it answers Run, Pause, Resume, Load and Abort as a real one does, at virtual
// times, and fails where they make no sense.
type device struct {
	Executor
	world    *world
	compute  *processor
	channel  *processor // of loads; where they take the device's time it is compute
	passes   map[wire.PassID]*pass
	nested   *pass // in the running one, or on its way there
	loading  bool
	resident []bool        // weights
	held     uint64        // bytes of those that are resident or on their way
	loaded   uint64        // bytes, ever
	lastFree time.Duration // when the last stage of a pipeline is free
}

// pass is one pass on a simulated executor.
type pass struct {
	run    *wire.Run
	took   time.Duration // in all, in each stage
	step   time.Duration // of it, after each of which another one may be nested in it
	layers time.Duration
	task   task
	rest   time.Duration // of took beside what is left of the task, if that ends with a pause
	parked bool
	outer  *pass // stands still while this one, which is nested in it, runs
}

func newDevice(w *world, e Executor) *device {
	e.Stages = max(1, e.Stages)
	d := &device{Executor: e, world: w, passes: map[wire.PassID]*pass{}, resident: make([]bool, len(e.Weights)), compute: &processor{loop: &w.loop, slots: 1}}
	d.channel = d.compute
	if e.Aside {
		d.channel = &processor{loop: &w.loop, slots: 1}
	}
	return d
}

// answerScheduler tells the scheduler.
func (d *device) answerScheduler(m wire.Message) error {
	return d.world.tellScheduler(scheduler.PeerID(d.Name), m)
}

// receiveMessage handles a message from the scheduler.
func (d *device) receiveMessage(msg wire.Message) error {
	switch m := msg.(type) {
	case *wire.Run:
		return d.startPass(m)
	case *wire.Pause:
		if p := d.passes[m.Pass]; p != nil && !p.parked && p.rest == 0 {
			d.pausePass(p)
		}
	case *wire.Resume:
		p := d.passes[m.Pass]
		if p == nil || !p.parked {
			return fmt.Errorf("%s is told to resume pass %d, which is not paused", d.Name, m.Pass)
		}
		p.parked = false
		p.task = task{left: p.rest, done: func() error { return d.endPass(p) }}
		p.rest = 0
		d.compute.startTask(&p.task)
	case *wire.Load:
		return d.loadWeights(m)
	case *wire.Drop:
		for _, i := range m.Weights {
			if d.resident[i] {
				d.resident[i] = false
				d.held -= d.Weights[i]
			}
		}
	case *wire.Abort:
		if p := d.passes[m.Pass]; p != nil {
			d.compute.stopTask(&p.task)
			d.removePass(p)
		}
	}
	return nil
}

func (d *device) startPass(run *wire.Run) error {
	if p := d.runningPass(); p != nil && !run.Nested {
		return fmt.Errorf("%s is told to start pass %d while pass %d runs", d.Name, run.Pass, p.run.Pass)
	}
	p, err := d.newPass(run)
	if err != nil {
		return err
	}
	if run.Nested {
		return d.nestPass(p)
	}
	d.passes[run.Pass] = p
	for range d.Stages - 1 {
		// The pass leaves a stage when the next one takes it, and its answers come out of the last.
		start := max(d.world.now+p.task.left, d.lastFree)
		d.lastFree = start + p.took
		p.task.left = start - d.world.now
		for _, it := range run.Items {
			d.world.jobs[it.Job-1].earliest = d.lastFree
		}
	}
	d.compute.startTask(&p.task)
	return nil
}

// newPass is a pass to run, with what it takes.
func (d *device) newPass(run *wire.Run) (*pass, error) {
	m := d.modelNamed(run.Model)
	for _, i := range m.Pieces {
		if !d.resident[i] {
			return nil, fmt.Errorf("%s is told to run model %q, whose weights are not there", d.Name, run.Model)
		}
	}
	took, err := d.computeTime(m, run)
	if err != nil {
		return nil, err
	}
	p := &pass{run: run, layers: time.Duration(m.Layers), took: m.timeWithCopies(took, len(run.Saves), len(run.Loads))}
	p.step = max(1, cmp.Or(m.Step, p.took/max(p.layers, 1)))
	p.task = task{left: p.took, done: func() error { return d.endPass(p) }}
	return p, nil
}

// computeTime is how long a pass computes.
func (d *device) computeTime(m *Model, run *wire.Run) (time.Duration, error) {
	var items []Item
	frames := 0.0
	for _, part := range run.Items {
		switch it := part.Work.(type) {
		case *wire.TokenItem:
			if it.Cached >= it.Len() {
				return 0, fmt.Errorf("%s is told to compute no token of job %s", d.Name, part.Job)
			}
			items = append(items, Item{Tokens: it.Len(), Cached: it.Cached})
		case *wire.TensorItem:
			frames += it.Frames
		}
	}
	seconds := m.Cost.seconds(items)
	switch n := int(frames); {
	case m.Frames == 0:
	case len(m.Batches) == 0:
		seconds = m.Cost.Base + m.Cost.Token*frames
	case n < 1 || n > len(m.Batches):
		return 0, fmt.Errorf("%s is told to run %d frames of model %q, which takes 1 to %d", d.Name, n, m.Name, len(m.Batches))
	default:
		return m.Batches[n-1], nil
	}
	if d.Noise > 0 {
		seconds *= 1 + d.Noise*(2*d.Random.Float64()-1)
	}
	return max(1, time.Duration(seconds*1e9)), nil
}

// pausePass has a pass stop at the end of its current layer; at the end of the last it is done.
func (d *device) pausePass(p *pass) {
	layer := p.took / max(p.layers, 1)
	done := p.took - d.compute.workLeft(&p.task)
	if layer == 0 {
		return
	}
	completed := (done + layer - 1) / layer
	if completed >= p.layers {
		return
	}
	stands := p.task.end == nil // another one is nested in it
	d.compute.stopTask(&p.task)
	p.rest = p.took - completed*layer
	p.task = task{left: completed*layer - done, done: func() error {
		p.parked = true
		return d.answerScheduler(&wire.Paused{Pass: p.run.Pass, Share: float64(completed) / float64(p.layers)})
	}}
	if !stands {
		d.compute.startTask(&p.task)
	}
}

// nestPass runs a pass to its end at the next step of the running one, which then goes on.
func (d *device) nestPass(p *pass) error {
	if d.nested != nil {
		return fmt.Errorf("%s is told to nest pass %d while it runs pass %d so", d.Name, p.run.Pass, d.nested.run.Pass)
	}
	outer := d.runningPass()
	d.passes[p.run.Pass] = p
	if outer == nil {
		d.compute.startTask(&p.task)
		return nil
	}
	d.nested = p
	left := d.compute.workLeft(&outer.task)
	done := outer.took - outer.rest - left
	wait := (outer.step - done%outer.step) % outer.step
	d.world.after(min(wait, left), func() error {
		switch {
		case d.passes[p.run.Pass] != p:
			return nil // it has been aborted
		case outer.task.end == nil:
			d.compute.startTask(&p.task) // the running one has ended first
			return nil
		}
		d.compute.stopTask(&outer.task)
		p.outer = outer
		d.compute.startTask(&p.task)
		return nil
	})
	return nil
}

// endPass answers a pass.
func (d *device) endPass(p *pass) error {
	d.removePass(p)
	done := &wire.Done{Pass: p.run.Pass, Took: p.took}
	units := 0.0
	for _, it := range p.run.Items {
		units += unitsOf(it.Work)
	}
	for _, it := range p.run.Items {
		r := &d.world.records[it.Job-1]
		r.Pass, r.Nested = p.run.Pass, p.run.Nested
		r.Device = time.Duration(float64(p.took) * unitsOf(it.Work) / units)
		done.Items = append(done.Items, itemResult(it))
	}
	return d.answerScheduler(done)
}

func (d *device) removePass(p *pass) {
	delete(d.passes, p.run.Pass)
	if p == d.nested {
		d.nested = nil
	}
	if outer := p.outer; outer != nil && d.passes[outer.run.Pass] == outer {
		d.compute.startTask(&outer.task)
	}
}

// runningPass is the pass that runs by itself; nil if there is none.
func (d *device) runningPass() *pass {
	for _, p := range d.passes {
		if !p.parked && p != d.nested {
			return p
		}
	}
	return nil
}

// loadWeights brings weights.
func (d *device) loadWeights(m *wire.Load) error {
	if d.loading {
		return fmt.Errorf("%s is told to load while it loads", d.Name)
	}
	rate := cmp.Or(d.modelNamed(m.Model).LoadRate, d.LoadRate)
	bytes := uint64(0)
	for _, i := range m.Weights {
		bytes += d.Weights[i]
	}
	d.held += bytes
	d.loaded += bytes
	if d.Memory > 0 && d.held > d.Memory {
		return fmt.Errorf("%s is told to load %d bytes of model %q, %d more than it has room for", d.Name, bytes, m.Model, d.held-d.Memory)
	}
	d.loading = true
	began := d.world.now
	d.channel.startTask(&task{left: time.Duration(float64(bytes) / rate * 1e9), done: func() error {
		d.loading = false
		for _, i := range m.Weights {
			d.resident[i] = true
		}
		return d.answerScheduler(&wire.Loaded{Serial: m.Serial, Count: len(m.Weights), Took: d.world.now - began})
	}})
	return nil
}

// unitsOf is the tokens or frames of an item.
func unitsOf(work wire.ItemWork) float64 {
	switch it := work.(type) {
	case *wire.TokenItem:
		return float64(it.Len() - it.Cached)
	case *wire.TensorItem:
		return it.Frames
	}
	return 0
}

// itemResult answers a job of any kind.
func itemResult(item wire.RunItem) wire.ItemResult {
	if _, ok := item.Work.(*wire.TensorItem); ok {
		return wire.ItemResult{Job: item.Job, Output: &engine.TensorOutput{}}
	}
	return wire.ItemResult{Job: item.Job, Output: &engine.TokenOutput{Answer: &engine.Answer{}}}
}
