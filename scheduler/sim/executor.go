package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
)

// pass is one pass on a simulated executor.
type pass struct {
	run     *wire.Run
	took    time.Duration // in all, in each stage
	step    time.Duration // of it, after each of which another one may be nested in it
	layers  int
	left    time.Duration // of it, when it last started
	since   time.Duration // when it last started
	paused  bool
	pending *event // its Done or Paused to come
}

// device is a simulated executor at work: it answers Run, Pause, Resume and Abort as a real one
// does, at virtual times.
type device struct {
	Executor
	passes   map[wire.PassID]*pass
	nested   *pass // in the running one
	loading  bool
	noise    *rand.Rand
	busy     time.Duration // spent in passes
	lastFree time.Duration // when the last stage of a pipeline is free
}

// receiveMessage handles a message from the scheduler and puts the answers to come into the world's heap.
func (d *device) receiveMessage(w *world, msg wire.Message) error {
	switch m := msg.(type) {
	case *wire.Run:
		return d.startPass(w, m)
	case *wire.Pause:
		if p := d.passes[m.Pass]; p != nil && !p.paused {
			d.pausePass(w, p)
		}
	case *wire.Resume:
		p := d.passes[m.Pass]
		if p == nil || !p.paused {
			return fmt.Errorf("%s is told to resume pass %d, which is not paused", d.Name, m.Pass)
		}
		p.paused, p.since = false, w.now
		p.pending = w.scheduleAfter(p.left, d, &wire.Done{Pass: m.Pass})
	case *wire.Load:
		return d.load(w, m)
	case *wire.Abort:
		if p := d.passes[m.Pass]; p != nil {
			p.cancelPending()
			delete(d.passes, m.Pass)
			if p == d.nested {
				d.nested = nil
			}
		}
	}
	return nil
}

func (d *device) startPass(w *world, run *wire.Run) error {
	if p := d.runningPass(); p != nil && !run.Nested {
		return fmt.Errorf("%s is told to start pass %d while pass %d runs", d.Name, run.Pass, p.run.Pass)
	}
	items, frames, err := d.passSizes(run)
	if err != nil {
		return err
	}
	took := d.timeWithCopies(d.Cost.Pass(items), len(run.Saves), len(run.Loads))
	p := &pass{run: run, step: took, layers: d.Layers, since: w.now}
	if m := d.hostedModel(run); m != nil {
		took, p.step = d.passDuration(m, items, frames)
		p.layers = m.Layers
	}
	p.took, p.left = took, took
	if run.Nested {
		err := d.runNested(w, p)
		d.passes[run.Pass] = p
		return err
	}
	d.passes[run.Pass] = p
	wait := took
	for range d.Stages - 1 {
		// The pass leaves a stage when the next one takes it, and its answers come out of the last.
		start := max(w.now+wait, d.lastFree)
		d.lastFree = start + took
		wait = start - w.now
		for _, it := range run.Items {
			w.delayAnswer(it.Job, d.lastFree)
		}
	}
	p.pending = w.scheduleAfter(wait, d, &wire.Done{Pass: run.Pass})
	return nil
}

// pausePass stops a pass at the end of its current layer; at the end of the last it is done.
func (d *device) pausePass(w *world, p *pass) {
	layer := p.took / time.Duration(max(p.layers, 1))
	done := p.took - p.left + w.now - p.since
	completed := (done + layer - 1) / layer
	end := completed * layer
	if layer == 0 || completed >= time.Duration(p.layers) {
		return
	}
	p.cancelPending()
	p.paused = true
	p.left = p.took - end
	p.pending = w.scheduleAfter(end-done, d, &wire.Paused{Pass: p.run.Pass, Share: float64(completed) / float64(p.layers)})
	d.busy += end - done + w.now - p.since
}

// ended turns a Done that has come due into the executor's full answer.
func (d *device) ended(w *world, done *wire.Done) {
	p := d.passes[done.Pass]
	delete(d.passes, done.Pass)
	d.busy += w.now - p.since
	if p == d.nested {
		d.nested = nil
	}
	done.Took = p.took
	for _, it := range p.run.Items {
		done.Items = append(done.Items, itemResult(it))
	}
}

func (p *pass) cancelPending() {
	if p.pending != nil {
		p.pending.msg = nil
		p.pending = nil
	}
}
