package scheduler

import (
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// dispatch gives an idle executor its next pass, if there is one.
func (c *Core) dispatch(e *executor) {
	c.expire()
	if e.running != nil {
		c.preempt(e)
		return
	}
	if e.queue.size == 0 && len(e.parked) == 0 {
		c.steal(e)
	}
	first, parked := c.next(e)
	switch {
	case parked >= 0:
		c.resume(e, parked)
	case first != nil:
		p := &pass{items: []*job{first}}
		c.fillPass(e, p)
		c.start(e, p)
	}
}

// next takes the job to run next out of the queue, with a lease, or finds the paused pass that goes
// on instead (its position, else -1).
func (c *Core) next(e *executor) (first *job, parked int) {
	if e.full {
		return nil, c.parkedBefore(e, nil)
	}
	if j := e.queue.turn(); j != nil && e.passedOver {
		e.queue.remove(j)
		return j, -1
	}
	first, parked = c.choose(e)
	if first == nil && parked < 0 {
		if first = e.queue.turn(); first != nil {
			e.queue.remove(first)
		}
	}
	return first, parked
}

// choose is next among the jobs that are to be computed and the paused passes. It finds neither where all
// these jobs lack pages, which those that generate give back as they end.
func (c *Core) choose(e *executor) (first *job, parked int) {
	j := e.queue.min(c.seconds(), e.blocked)
	for j != nil {
		if i := c.parkedBefore(e, j); i >= 0 {
			return nil, i
		}
		e.queue.remove(j)
		if c.lease(e, j) {
			return j, -1
		}
		e.queue.push(j)
		j = e.queue.minPlain(c.seconds())
	}
	return nil, c.parkedBefore(e, nil)
}

// nextUnblocked is the job that the policy runs next among those for which there may be pages; nil if
// there is none.
func (c *Core) nextUnblocked(e *executor) *job {
	if e.blocked != nil {
		return e.queue.minPlain(c.seconds())
	}
	return e.queue.min(c.seconds(), nil)
}

// lease gets a job its pages. The first job that finds too few is the executor's blocked one: until
// it has them, no other job gets pages for more than one pass, so those held run out and it does
// not starve.
func (c *Core) lease(e *executor, j *job) bool {
	if j.lease != nil {
		return true
	}
	pages := j.pages(c.cfg.FullKV, e.info.BlockTokens)
	usable := j.usable()
	lease, moves := e.index.Acquire(kvcache.Request{
		Chain: j.chain, Reuse: usable, Load: j.loads > 0, Fill: len(j.chain), Pages: pages,
		Shared: e.queue.shared(j.chain, j.cached),
		Wanted: e.queue.wanted, Sequence: j.sequence(),
	})
	if lease == nil {
		e.blocked, j.blocked = j, true
		return false
	}
	if j.blocked {
		e.blocked, j.blocked = nil, false
	}
	c.stats.Evictions += uint64(len(moves.Evicted))
	e.queue.evicted(moves.Evicted, moves.Lost)
	e.saves = appendSaves(e.saves, moves.Saves)
	c.noteMoves(e, &moves)
	j.lease, j.computed = lease, false
	j.cached, j.loads, j.part = lease.Cached(), len(lease.Loads), lease.Part.Tokens
	c.countHits(e, j)
	return true
}

// countHits counts what a job's lease has found in the cache.
func (c *Core) countHits(e *executor, j *job) {
	found, loaded := j.lease.Reused*j.chainOf+j.lease.Part.Tokens, len(j.lease.Loads)*j.chainOf
	if !j.scoresPrompt() {
		c.stats.PrefixQueries += uint64(len(j.seq))
		c.stats.PrefixHits += uint64(found)
		if e.info.HostBlocks > 0 {
			c.stats.HostQueries += uint64(len(j.seq) - found)
			c.stats.HostHits += uint64(loaded)
		}
	}
	if j.generated() == 0 {
		j.hits = found + loaded
	}
}

// start sends a pass whose jobs have their leases.
func (c *Core) start(e *executor, p *pass) {
	c.passes++
	p.id = wire.PassID(c.passes)
	p.started = c.now
	run := &wire.Run{Pass: p.id, Saves: e.saves, Items: make([]wire.RunItem, len(p.items))}
	e.saves = nil
	p.work = cost.Work{Passes: 1}
	generates := p.items[0].continuing()
	for i, j := range p.items {
		cached := j.cachedTokens()
		w := cost.Of(len(j.seq), cached)
		if !j.continuing() {
			w.Loads = float64(len(j.lease.Loads))
			run.Loads = appendLoads(run.Loads, j.lease.Loads)
		}
		p.work.Add(w)
		run.Items[i] = wire.RunItem{
			Job: j.submit.Job, Tokens: j.seq, Cached: cached, Blocks: toPages(j.lease.Pages), Part: j.copied(),
			Draw: j.generated(), Ask: j.ask(),
		}
		c.begin(j)
		e.pool.places.add(j, e)
	}
	e.running = p
	e.passedOver = !generates && e.queue.turn() != nil
	c.send(e.peer.id, run)
}

// copied is what the job's pass is to copy from a block of another one.
func (j *job) copied() wire.Part {
	if j.continuing() || j.lease.Part.Tokens == 0 {
		return wire.Part{}
	}
	return wire.Part{Block: wire.BlockID(j.lease.Part.Page), Tokens: j.lease.Part.Tokens}
}

// begin marks a job as in a pass, and as started at its first.
func (c *Core) begin(j *job) {
	j.state = stateInPass
	if j.running == 0 {
		j.startedAt = c.now
	}
	if j.started {
		return
	}
	j.started = true
	c.forgetDeadline(j)
	c.queuedJobs--
	c.queuedTokens -= len(j.submit.Tokens)
}
