package scheduler

import (
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/executors"
)

// peerName is what stays of a peer over its restarts.
type peerName struct {
	role wire.Role
	name string
}

// peer is a registered frontend or executor.
type peer struct {
	id       PeerID
	name     peerName
	epoch    uint64 // its own
	welcomed uint64 // the scheduler's, as its Welcomes tell: higher than that of any peer lost before
	heard    time.Duration
	hellos   int
	frontend *executors.Frontend // one of the two is set
	executor *executors.Executor
	knows    uint64              // the Fleet.Models that a frontend was told last
	state    *wire.ExecutorState // what an executor last said of itself; may be nil
}

// hasAnsweredWelcome says that a peer has answered a Welcome. An executor runs nothing before; until then the
// Hello we know it by may even be an old one of a process that is dead.
func (p *peer) hasAnsweredWelcome() bool { return p.hellos > 1 }

// handleHello registers a peer or renews its registration, and answers Welcome.
func (c *Core) handleHello(from PeerID, m *wire.Hello) {
	name := peerName{m.Role, m.Name}
	p := c.peers[from]
	if m.Role == wire.RoleExecutor && m.Executor == nil && (p == nil || p.name != name || p.epoch != m.Epoch) {
		// One that has nothing to tell yet, or takes us for a scheduler before this one.
		c.noteOpening(m)
		c.fleet.Send(from, &wire.Welcome{Epoch: c.epoch + c.losses})
		return
	}
	if p != nil && p.name != name {
		c.dropLostPeer(p)
		p = nil
	}
	if p == nil {
		p = c.readdressPeer(from, name, m.Epoch)
	}
	if p != nil && p.epoch != m.Epoch {
		c.dropRestartedPeer(p)
		p = nil
	}
	if p == nil {
		if p = c.registerPeer(from, name, m); p == nil {
			return
		}
	}
	p.hellos++
	p.heard, p.state, p.knows = c.fleet.Now, m.State, m.Models
	if p.executor != nil {
		p.executor.Settled = p.hasAnsweredWelcome()
	}
	c.sendWelcome(p)
	if p.executor != nil {
		c.applyExecutorInfo(p, m.Executor)
	}
}

// applyExecutorInfo takes in what an executor's Hello says of its models.
func (c *Core) applyExecutorInfo(p *peer, info *wire.ExecutorInfo) {
	e := p.executor
	switch {
	case p.hellos == 1:
		c.modelsChanged()
		c.adoptJobs(e)
	case info != nil && hasInfoChanged(e, info):
		displaced := c.fleet.UpdateExecutor(e, info)
		c.modelsChanged()
		c.placeJobs(executors.SortBySubmission(displaced))
		c.adoptJobs(e)
	case p.hellos == 2:
		c.dispatchWork(e) // weights are loaded from now on
	}
}

// hasInfoChanged says whether what an executor tells of itself is news. Which weights are there is known.
func hasInfoChanged(e *executors.Executor, info *wire.ExecutorInfo) bool {
	a, b := e.Info, *info
	a.Weights, b.Weights = nil, nil
	same := func(v, w wire.Weight) bool { return v.Bytes == w.Bytes }
	return !reflect.DeepEqual(a, b) || !slices.EqualFunc(e.Info.Weights, info.Weights, same)
}

// readdressPeer finds a peer that comes back under another address: with the same epoch it is the same
// process, with another one its predecessor is dead.
func (c *Core) readdressPeer(from PeerID, name peerName, epoch uint64) *peer {
	p := c.named[name]
	if p == nil {
		return nil
	}
	if p.epoch != epoch {
		c.dropLostPeer(p)
		return nil
	}
	delete(c.peers, p.id)
	c.peers[from] = p
	p.id = from
	if p.frontend != nil {
		p.frontend.ID = from
	} else {
		p.executor.ID = from
	}
	return p
}

// dropRestartedPeer removes a peer whose Hello has a new epoch. An executor that changes its epoch at its
// second Hello has answered our Welcome, as it must when it knew another scheduler before: what we
// sent it behind that Welcome is still to come there.
func (c *Core) dropRestartedPeer(p *peer) {
	if p.executor != nil && !p.hasAnsweredWelcome() {
		for _, ps := range p.executor.Passes() {
			c.fleet.Send(p.id, &wire.Abort{Pass: ps.ID})
		}
	}
	c.removePeer(p)
}

// registerPeer adds a peer; nil if its Hello makes no sense.
func (c *Core) registerPeer(from PeerID, name peerName, m *wire.Hello) *peer {
	p := &peer{id: from, name: name, epoch: m.Epoch, welcomed: c.epoch + c.losses}
	switch m.Role {
	case wire.RoleFrontend:
		p.frontend = &executors.Frontend{ID: from, Name: m.Name, Jobs: map[engine.JobID]*executors.Job{}}
		c.frontends = append(c.frontends, p)
	case wire.RoleExecutor:
		p.executor = c.fleet.AddExecutor(from, m.Name, m.Executor)
		delete(c.opening, m.Name)
	default:
		return nil
	}
	c.peers[from] = p
	c.named[name] = p
	return p
}

// adoptJobs gives an executor the orphans of its models and, when users have homes, the waiting jobs
// whose home it is.
func (c *Core) adoptJobs(e *executors.Executor) {
	c.placeJobs(c.fleet.AdoptOrphans(e))
	for _, inst := range e.Instances {
		c.placeJobs(c.fleet.Homecoming(inst))
	}
	c.dispatchWork(e)
}

// dropLostPeer removes a peer that is gone without a word. Should it still be there, the Welcome to its
// next Hello has a new epoch, so that it knows that its state here is gone.
func (c *Core) dropLostPeer(p *peer) {
	if p == nil {
		return
	}
	c.losses++
	c.removePeer(p)
}

func (c *Core) removePeer(p *peer) {
	delete(c.peers, p.id)
	delete(c.named, p.name)
	if p.executor != nil {
		c.removeExecutor(p)
		return
	}
	c.frontends = slices.DeleteFunc(c.frontends, func(f *peer) bool { return f == p })
	c.settings = slices.DeleteFunc(c.settings, func(s setting) bool { return s.from == p })
	jobs := executors.SortBySubmission(slices.Collect(maps.Values(p.frontend.Jobs)))
	for _, all := range []bool{false, true} { // those in passes last: a pass that ends starts another, for which a lowest one is put back
		for _, j := range jobs {
			if p.frontend.Jobs[j.Submit.ID] == j && (all || j.State != executors.InPass) {
				c.withdrawJob(j)
			}
		}
	}
}

// removeExecutor removes an executor and finds other places for its jobs. Those in passes that run or
// prepare may have killed it.
func (c *Core) removeExecutor(p *peer) {
	e, f := p.executor, c.fleet
	if p.hasAnsweredWelcome() {
		f.Stats.ExecutorLost++
	}
	for _, ps := range suspectPasses(e) {
		for _, j := range ps.Items {
			// What has killed one process may have killed the next before that was heard of again.
			if !j.Cancelled && (p.hasAnsweredWelcome() || j.Deaths > 0 && j.DiedIn != p.epoch) {
				j.Deaths, j.DiedIn = j.Deaths+1, p.epoch
				f.Stats.Retries++
			}
		}
	}
	jobs := f.RemoveExecutor(e)
	c.modelsChanged()
	for i, j := range jobs {
		switch {
		case j.Cancelled:
			f.ForgetJob(j)
		case j.Deaths >= maxDeaths:
			c.failJob(j, engine.Errorf(engine.CodeExecutorLost,
				"%d executors died while they ran this request, the last one is %s; it is not run again", j.Deaths, p.name.name))
		default:
			continue
		}
		jobs[i] = nil
	}
	c.placeJobs(slices.DeleteFunc(jobs, func(j *executors.Job) bool { return j == nil }))
	c.answerSettings()
}

// suspectPasses lists the passes that may have killed an executor: those that ran or prepared. Lowest ones stand still while
// there are others.
func suspectPasses(e *executors.Executor) []*executors.Pass {
	list := slices.Clone(e.Preparing)
	for _, p := range []*executors.Pass{e.Running, e.Nested} {
		if p != nil {
			list = append(list, p)
		}
	}
	if e.Running == nil && len(e.Lowest) > 0 {
		list = append(list, e.Lowest[0])
	}
	return list
}

// maxDeaths is how many executors in a row may die running a job before it is given up.
const maxDeaths = 2
