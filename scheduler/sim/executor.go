package sim

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// pass is one pass on a simulated executor.
type pass struct {
	run     *wire.Run
	took    time.Duration // in all, in each stage
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
	busy     time.Duration // spent in passes
	lastFree time.Duration // when the last stage of a pipeline is free
}

// receive handles a message from the scheduler and puts the answers to come into the world's heap.
func (d *device) receive(w *world, msg wire.Message) error {
	switch m := msg.(type) {
	case *wire.Run:
		return d.start(w, m)
	case *wire.Pause:
		if p := d.passes[m.Pass]; p != nil && !p.paused {
			d.pause(w, p)
		}
	case *wire.Resume:
		p := d.passes[m.Pass]
		if p == nil || !p.paused {
			return fmt.Errorf("%s is told to resume pass %d, which is not paused", d.Name, m.Pass)
		}
		p.paused, p.since = false, w.now
		p.pending = w.after(p.left, d, &wire.Done{Pass: m.Pass})
	case *wire.Abort:
		if p := d.passes[m.Pass]; p != nil {
			p.cancel()
			delete(d.passes, m.Pass)
		}
	}
	return nil
}

func (d *device) start(w *world, run *wire.Run) error {
	for id, p := range d.passes {
		if !p.paused {
			return fmt.Errorf("%s is told to start pass %d while pass %d runs", d.Name, run.Pass, id)
		}
	}
	items := make([]Item, len(run.Items))
	for i, it := range run.Items {
		if it.Cached >= len(it.Tokens) {
			return fmt.Errorf("%s is told to compute no token of job %s", d.Name, it.Job)
		}
		items[i] = Item{Tokens: len(it.Tokens), Cached: it.Cached}
	}
	took := d.copying(d.Cost.Pass(items), len(run.Saves), len(run.Loads))
	p := &pass{run: run, took: took, left: took, since: w.now}
	d.passes[run.Pass] = p
	wait := took
	for range d.Stages - 1 {
		// The pass leaves a stage when the next one takes it, and its answers come out of the last.
		start := max(w.now+wait, d.lastFree)
		d.lastFree = start + took
		wait = start - w.now
		for _, it := range run.Items {
			w.delay(it.Job, d.lastFree)
		}
	}
	p.pending = w.after(wait, d, &wire.Done{Pass: run.Pass})
	return nil
}

// pause stops a pass at the end of its current layer; at the end of the last it is done.
func (d *device) pause(w *world, p *pass) {
	layer := p.took / time.Duration(d.Layers)
	done := p.took - p.left + w.now - p.since
	completed := (done + layer - 1) / layer
	end := completed * layer
	if layer == 0 || completed >= time.Duration(d.Layers) {
		return
	}
	p.cancel()
	p.paused = true
	p.left = p.took - end
	p.pending = w.after(end-done, d, &wire.Paused{Pass: p.run.Pass, Layer: int(completed)})
	d.busy += end - done + w.now - p.since
}

// ended turns a Done that has come due into the executor's full answer.
func (d *device) ended(w *world, done *wire.Done) {
	p := d.passes[done.Pass]
	delete(d.passes, done.Pass)
	d.busy += w.now - p.since
	done.Took = p.took
	for _, it := range p.run.Items {
		done.Items = append(done.Items, wire.ItemResult{Job: it.Job, Answer: &engine.Answer{}})
	}
}

func (p *pass) cancel() {
	if p.pending != nil {
		p.pending.msg = nil
		p.pending = nil
	}
}
