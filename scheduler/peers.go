package scheduler

import (
	"maps"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/fleet"
)

// hello registers a peer or renews its registration, and answers Welcome.
func (c *Core) hello(from PeerID, m *wire.Hello) {
	name := fleet.PeerName{Role: m.Role, Name: m.Name}
	p := c.peers[from]
	if m.Role == wire.RoleExecutor && m.Executor == nil && (p == nil || p.Name != name || p.Epoch != m.Epoch) {
		// One that has nothing to tell yet, or takes us for a scheduler before this one.
		c.noteOpening(m)
		c.fleet.Send(from, &wire.Welcome{Epoch: c.epoch + c.losses})
		return
	}
	if p != nil && p.Name != name {
		c.lost(p)
		p = nil
	}
	if p == nil {
		p = c.readdress(from, name, m.Epoch)
	}
	if p != nil && p.Epoch != m.Epoch {
		c.restarted(p)
		p = nil
	}
	if p == nil {
		if p = c.register(from, name, m); p == nil {
			return
		}
	}
	p.Hellos++
	p.Heard, p.State = c.fleet.Now, m.State
	if p.Frontend != nil {
		p.Frontend.Knows = m.Models
	}
	c.welcome(p)
	if p.Executor != nil {
		c.heard(p, m.Executor)
	}
}

// heard takes in what an executor's Hello says of its models.
func (c *Core) heard(p *fleet.Peer, info *wire.ExecutorInfo) {
	e := p.Executor
	switch {
	case p.Hellos == 1:
		c.modelsChanged()
		c.adopt(e)
	case info != nil && e.Differs(info):
		displaced := c.fleet.Tell(e, info)
		c.modelsChanged()
		c.placeAll(fleet.InOrder(displaced))
		c.adopt(e)
	case p.Hellos == 2:
		c.dispatch(e) // weights are loaded from now on
	}
}

// readdress finds a peer that comes back under another address: with the same epoch it is the same
// process, with another one its predecessor is dead.
func (c *Core) readdress(from PeerID, name fleet.PeerName, epoch uint64) *fleet.Peer {
	p := c.named[name]
	if p == nil {
		return nil
	}
	if p.Epoch != epoch {
		c.lost(p)
		return nil
	}
	delete(c.peers, p.ID)
	p.ID = from
	c.peers[from] = p
	return p
}

// restarted removes a peer whose Hello has a new epoch. An executor that changes its epoch at its
// second Hello has answered our Welcome, as it must when it knew another scheduler before: what we
// sent it behind that Welcome is still to come there.
func (c *Core) restarted(p *fleet.Peer) {
	if p.Executor != nil && !p.Settled() {
		for _, ps := range p.Executor.Passes() {
			c.fleet.Send(p.ID, &wire.Abort{Pass: ps.ID})
		}
	}
	c.remove(p)
}

// register adds a peer; nil if its Hello makes no sense.
func (c *Core) register(from PeerID, name fleet.PeerName, m *wire.Hello) *fleet.Peer {
	p := &fleet.Peer{ID: from, Name: name, Epoch: m.Epoch, Welcomed: c.epoch + c.losses}
	switch m.Role {
	case wire.RoleFrontend:
		p.Frontend = &fleet.Frontend{Peer: p, Jobs: map[engine.JobID]*fleet.Job{}}
		c.frontends = append(c.frontends, p.Frontend)
	case wire.RoleExecutor:
		c.fleet.Add(p, m.Executor)
		delete(c.opening, m.Name)
	default:
		return nil
	}
	c.peers[from] = p
	c.named[name] = p
	return p
}

// adopt gives an executor the orphans of its models and, when users have homes, the waiting jobs
// whose home it is.
func (c *Core) adopt(e *fleet.Executor) {
	var jobs []*fleet.Job
	for _, l := range e.Lanes {
		jobs = append(jobs, l.Pool.Orphans...)
		l.Pool.Orphans = nil
	}
	c.placeAll(fleet.InOrder(jobs))
	for _, l := range e.Lanes {
		c.placeAll(c.fleet.Homecoming(l))
	}
	c.dispatch(e)
}

// lost removes a peer that is gone without a word. Should it still be there, the Welcome to its
// next Hello has a new epoch, so that it knows that its state here is gone.
func (c *Core) lost(p *fleet.Peer) {
	if p == nil {
		return
	}
	c.losses++
	c.remove(p)
}

func (c *Core) remove(p *fleet.Peer) {
	delete(c.peers, p.ID)
	delete(c.named, p.Name)
	if p.Executor != nil {
		c.removeExecutor(p)
		return
	}
	c.frontends = slices.DeleteFunc(c.frontends, func(f *fleet.Frontend) bool { return f == p.Frontend })
	c.settings = slices.DeleteFunc(c.settings, func(s setting) bool { return s.from == p.Frontend })
	jobs := fleet.InOrder(slices.Collect(maps.Values(p.Frontend.Jobs)))
	for _, all := range []bool{false, true} { // those in passes last: a pass that ends starts another, for which a lowest one is put back
		for _, j := range jobs {
			if p.Frontend.Jobs[j.Submit.ID] == j && (all || j.State != fleet.InPass) {
				c.withdraw(j)
			}
		}
	}
}

// removeExecutor removes an executor and finds other places for its jobs. Those in passes that run or
// prepare may have killed it.
func (c *Core) removeExecutor(p *fleet.Peer) {
	e, f := p.Executor, c.fleet
	if p.Settled() {
		f.Stats.ExecutorLost++
	}
	for _, ps := range e.Suspects() {
		for _, j := range ps.Items {
			// What has killed one process may have killed the next before that was heard of again.
			if !j.Cancelled && (p.Settled() || j.Deaths > 0 && j.DiedIn != p.Epoch) {
				j.Deaths, j.DiedIn = j.Deaths+1, p.Epoch
				f.Stats.Retries++
			}
		}
	}
	jobs := f.Remove(e)
	c.modelsChanged()
	for i, j := range jobs {
		switch {
		case j.Cancelled:
			f.Forget(j)
		case j.Deaths >= maxDeaths:
			c.fail(j, engine.Errorf(engine.CodeExecutorLost,
				"%d executors died while they ran this request, the last one is %s; it is not run again", j.Deaths, p.Name.Name))
		default:
			continue
		}
		jobs[i] = nil
	}
	c.placeAll(slices.DeleteFunc(jobs, func(j *fleet.Job) bool { return j == nil }))
	c.settle()
}

// maxDeaths is how many executors in a row may die running a job before it is given up.
const maxDeaths = 2
