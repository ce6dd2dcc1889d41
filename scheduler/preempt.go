package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// preempt asks a running pass to make way, if the policy wants that and a place for it is left.
func (c *Core) preempt(e *executor) {
	p := e.running
	if !e.info.CanPause || p.pausing || e.full || len(e.parked) >= c.cfg.MaxPaused {
		return
	}
	if j := c.nextUnblocked(e); j != nil && c.overtakes(e, j, p) {
		p.pausing = true
		c.send(e.peer.id, &wire.Pause{Pass: p.id})
	}
}

// preemptMargin is by how many tokens a job must be shorter than what remains of a pass, so that a
// pause is worth the layer it waits for.
const preemptMargin = 128

// overtakes asks the policy whether a waiting job goes before what remains of a started pass.
func (c *Core) overtakes(e *executor, j *job, p *pass) bool {
	rule, ok := c.policy.(preemptivePolicy)
	if !ok {
		return false
	}
	held := p.held
	if p != e.running {
		held += c.now - p.parkedAt
	}
	left := e.left(p, c.now)
	whole := e.spent(p, c.now) + left
	// A pass that takes longer than the model says tells that one of the job may too.
	needs := e.cost.Seconds(j.work()) + e.cost.Seconds(cost.Work{Tokens: preemptMargin})
	return rule.overtakes(needs*whole/e.cost.Seconds(p.work), left, held.Seconds(), whole)
}

// paused parks a pass that stands still.
func (c *Core) paused(from PeerID, m *wire.Paused) {
	e := c.executorAt(from)
	if e == nil || e.running == nil || e.running.id != m.Pass || !e.running.pausing {
		return
	}
	p := e.running
	p.ran += c.now - p.started
	if m.Layer > 0 && e.info.Layers > 0 {
		p.whole = p.ran.Seconds() * float64(e.info.Layers) / float64(m.Layer)
	}
	p.parkedAt = c.now
	p.pausing = false
	c.stats.Preemptions++
	e.running = nil
	e.parked = append(e.parked, p)
	c.dispatch(e)
}

// parkedBefore finds the paused pass that goes on before job j starts, -1 if there is none; j may be
// nil. A pass that may be held up no longer comes first, then the one with the least left.
func (c *Core) parkedBefore(e *executor, j *job) int {
	best := -1
	for i, p := range e.parked {
		switch {
		case j != nil && c.overtakes(e, j, p):
		case best < 0, e.left(p, c.now) < e.left(e.parked[best], c.now):
			best = i
		}
	}
	return best
}

// resume lets a paused pass go on.
func (c *Core) resume(e *executor, i int) {
	p := e.parked[i]
	e.parked = slices.Delete(e.parked, i, i+1)
	p.held += c.now - p.parkedAt
	p.started = c.now
	e.running = p
	c.send(e.peer.id, &wire.Resume{Pass: p.id})
}

// putBack returns the jobs of a pass that found no room beside the paused ones to the queue. Until a
// pass has ended, and left its room, the executor starts and pauses none: the paused ones go on. Jobs
// that generate keep their pages, in which is what they have computed.
func (c *Core) putBack(e *executor, p *pass) {
	for _, j := range p.items {
		switch {
		case j.cancelled:
			c.forget(j)
		case j.continuing():
			c.enqueue(j, e)
		default:
			c.requeue(e, j)
		}
	}
}
