package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
)

const (
	// maxPauses is how often one pass may be pre-empted.
	maxPauses = 8
	// preemptMargin is by how many tokens a waiting job's key must be smaller than the running
	// pass's, so that a pause is worth the layer it waits for.
	preemptMargin = 128
)

// preempt asks a running pass to make way, if the policy wants that and a place for it is left.
func (c *Core) preempt(e *executor) {
	rule, ok := c.policy.(preemptivePolicy)
	p := e.running
	if !ok || !e.info.CanPause || p.pausing || p.pauses >= maxPauses || len(e.parked) >= c.cfg.MaxPaused {
		return
	}
	j := e.queue.min(c.seconds())
	if j == nil || j.blocked || j.key+preemptMargin >= rule.passKey(e.left(p, c.now), p.aged()) {
		return
	}
	p.pausing = true
	c.send(e.peer.id, &wire.Pause{Pass: p.id})
}

// paused parks a pass that stands still.
func (c *Core) paused(from PeerID, m *wire.Paused) {
	e := c.executorAt(from)
	if e == nil || e.running == nil || e.running.id != m.Pass || !e.running.pausing {
		return
	}
	p := e.running
	p.remaining = e.left(p, c.now)
	p.ran += p.elapsed(c.now)
	p.pausing = false
	p.pauses++
	c.stats.Preemptions++
	e.running = nil
	e.parked = append(e.parked, p)
	c.dispatch(e)
}

// parkedBefore finds the paused pass that comes before job j by the policy, -1 if none does; j may
// be nil.
func (c *Core) parkedBefore(e *executor, j *job) int {
	rule, ok := c.policy.(preemptivePolicy)
	if !ok {
		return -1
	}
	best, least := -1, 0.0
	for i, p := range e.parked {
		if key := rule.passKey(p.remaining, p.aged()); best < 0 || key < least {
			best, least = i, key
		}
	}
	if j != nil && j.key < least {
		return -1
	}
	return best
}

// resume lets a paused pass go on.
func (c *Core) resume(e *executor, i int) {
	p := e.parked[i]
	e.parked = slices.Delete(e.parked, i, i+1)
	p.started = c.now
	e.running = p
	c.send(e.peer.id, &wire.Resume{Pass: p.id})
}
