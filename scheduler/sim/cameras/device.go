package cameras

import (
	"fmt"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
)

// device runs one pass at a time, in steps between which another can be nested.
type device struct {
	world   *world
	running *pass
	nested  *pass
	err     error // the scheduler has broken the protocol
}

// pass is a Run on its way.
type pass struct {
	run    *wire.Run
	took   time.Duration // in all
	step   time.Duration
	done   time.Duration // of it, when it last went on
	since  time.Duration // when that was
	begins time.Duration // of a nested one: the end of the step before it
}

// receiveMessage takes a message of the scheduler.
func (d *device) receiveMessage(m wire.Message) {
	run, ok := m.(*wire.Run)
	if !ok {
		return
	}
	p := &pass{run: run, took: d.passDuration(run), since: d.world.now}
	p.step = d.world.Frame // a layer of a gradient takes no longer
	if run.Model == llm {
		p.step = d.world.longestStep()
	}
	switch {
	case !run.Nested && d.running == nil:
		d.running = p
	case run.Nested && d.running != nil && d.nested == nil:
		p.begins = d.stepEnd()
		d.nested = p
	default:
		d.err = fmt.Errorf("pass %d is to run (nested: %v) while another does", run.Pass, run.Nested)
	}
}

// passDuration is what a pass takes: the cost model's figure, give or take the jitter.
func (d *device) passDuration(run *wire.Run) time.Duration {
	w := d.world
	sum := 0.0
	for _, item := range run.Items {
		switch work := item.Work.(type) {
		case *wire.TokenItem:
			n := float64(work.Len())
			sum += llmToken*n + llmPair*n*n/2
		case *wire.TensorItem:
			sum += (w.Frame - frameBase).Seconds() * work.Frames
		}
	}
	base := frameBase
	if run.Model == llm {
		base = llmBase
	}
	return secondsToDuration((base.Seconds() + sum) * (1 + jitter*(2*w.rng.Float64()-1)))
}

// stepEnd is when the step that the running pass is in ends.
func (d *device) stepEnd() time.Duration {
	p := d.running
	done := p.done + d.world.now - p.since
	steps := (done + p.step - 1) / p.step
	return p.since + min(steps*p.step, p.took) - p.done
}

// nextEvent is when something happens on the device, and what; nil if nothing does.
func (d *device) nextEvent() (time.Duration, func()) {
	switch p, n := d.running, d.nested; {
	case n != nil && p != nil && n.begins >= p.since+p.took-p.done:
		return n.begins, d.endPass // it has no step to be nested in: the running one ends first
	case n != nil:
		return n.begins + n.took, d.endNested
	case p != nil:
		return p.since + p.took - p.done, d.endPass
	}
	return 0, nil
}

// endPass answers the running pass.
func (d *device) endPass() {
	p := d.running
	d.running = nil
	if n := d.nested; n != nil {
		n.begins = d.world.now
	}
	d.answerPass(p)
}

// endNested answers the nested pass, and lets the running one go on.
func (d *device) endNested() {
	n, p := d.nested, d.running
	d.nested = nil
	if p != nil {
		p.done += n.begins - p.since
		p.since = d.world.now
	}
	if d.world.isCounting() {
		d.world.out.Nested++
	}
	d.answerPass(n)
}

func (d *device) answerPass(p *pass) {
	w := d.world
	m := &wire.Done{Pass: p.run.Pass, Took: p.took}
	for _, item := range p.run.Items {
		var out engine.Output = &engine.TokenOutput{Answer: &engine.Answer{}}
		if work, ok := item.Work.(*wire.TensorItem); ok {
			out = &engine.TensorOutput{}
			d.count(work, p)
		}
		m.Items = append(m.Items, wire.ItemResult{Job: item.Job, Output: out})
	}
	w.tell(gpu, m)
}

// count notes what of a pass an item took.
func (d *device) count(work *wire.TensorItem, p *pass) {
	w := d.world
	if !w.isCounting() {
		return
	}
	all := 0.0
	for _, item := range p.run.Items {
		all += item.Work.(*wire.TensorItem).Frames
	}
	took := p.took.Seconds() * work.Frames / all
	if work.Grad != nil {
		w.out.Slopes += took
	} else {
		w.out.Frames += took
	}
}
