package scheduler

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
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
	frontend *frontend // one of the two is set
	executor *executor
	state    *wire.ExecutorState // what an executor last said of itself; may be nil
}

// frontend is a peer that submits jobs.
type frontend struct {
	peer *peer
	jobs map[engine.JobID]*job
}

// executor is a peer that runs passes, with what the scheduler knows of it.
type executor struct {
	peer    *peer
	info    wire.ExecutorInfo
	pool    *pool
	rank    int    // tells it from the others at the time; see CacheEvent
	salt    uint64 // of its name, for rendezvous hashing
	cost    cost.Model
	index   *kvcache.Index
	queue   *queue
	running *pass       // nil while idle
	parked  []*pass     // paused, oldest first
	marked  uint64      // by the last job of which a prefix may be here; see Core.mark
	saves   []wire.Copy // that go with the next pass
	full    bool        // a pass did not fit beside the paused ones, and none has ended since; see putBack
	blocked *job        // waits for pages that other jobs hold; see lease
	// passedOver says that the pass started last began with a job of the policy's choice and left some that
	// generate behind: the next one begins with those. So where both kinds wait, of two passes that start one
	// after the other at least one begins with the policy's choice, and at least one has a job that generates.
	passedOver bool
}

// pool is the executors that serve one model, and the jobs for which there is none.
type pool struct {
	model     string
	executors []*executor // in the order of registration
	serving   []*executor // those whose checkpoint is the first one's: others would answer differently
	orphans   []*job      // in the order of submission
	waiting   int         // jobs in the queues of executors
	places    places
}

// elect finds the executors that serve.
func (p *pool) elect() {
	p.serving = p.serving[:0]
	for _, e := range p.executors {
		if e.info.Fingerprint == p.executors[0].info.Fingerprint {
			p.serving = append(p.serving, e)
		}
	}
}

// hello registers a peer or renews its registration, and answers Welcome.
func (c *Core) hello(from PeerID, m *wire.Hello) {
	name := peerName{m.Role, m.Name}
	if m.Role == wire.RoleExecutor && m.Executor == nil {
		c.noteLoading(m)
		return
	}
	p := c.peers[from]
	if p != nil && p.name != name {
		c.lost(p)
		p = nil
	}
	if p == nil {
		p = c.readdress(from, name, m.Epoch)
	}
	if p != nil && p.epoch != m.Epoch {
		c.restarted(p)
		p = nil
	}
	if p == nil {
		if p = c.register(from, name, m); p == nil {
			return
		}
	}
	p.hellos++
	p.heard, p.state = c.now, m.State
	c.send(from, c.welcome(p))
	if p.executor != nil && p.hellos == 1 {
		c.executorsChanged()
		c.adopt(p.executor)
	}
}

// readdress finds a peer that comes back under another address: with the same epoch it is the same
// process, with another one its predecessor is dead.
func (c *Core) readdress(from PeerID, name peerName, epoch uint64) *peer {
	p := c.named[name]
	if p == nil {
		return nil
	}
	if p.epoch != epoch {
		c.lost(p)
		return nil
	}
	delete(c.peers, p.id)
	p.id = from
	c.peers[from] = p
	return p
}

// restarted removes a peer whose Hello has a new epoch. An executor that changes its epoch at its
// second Hello has answered our Welcome, as it must when it knew another scheduler before: what we
// sent it behind that Welcome is still to come there.
func (c *Core) restarted(p *peer) {
	if p.executor != nil && !p.settled() {
		for _, ps := range p.executor.allPasses() {
			c.send(p.id, &wire.Abort{Pass: ps.id})
		}
	}
	c.remove(p)
}

// settled says that a peer has answered a Welcome. An executor runs nothing before; until then the
// Hello we know it by may even be an old one of a process that is dead.
func (p *peer) settled() bool { return p.hellos > 1 }

// register adds a peer; nil if its Hello makes no sense.
func (c *Core) register(from PeerID, name peerName, m *wire.Hello) *peer {
	p := &peer{id: from, name: name, epoch: m.Epoch, welcomed: c.epoch + c.losses}
	switch m.Role {
	case wire.RoleFrontend:
		p.frontend = &frontend{peer: p, jobs: map[engine.JobID]*job{}}
		c.frontends = append(c.frontends, p.frontend)
	case wire.RoleExecutor:
		if m.Executor == nil {
			return nil
		}
		index, err := kvcache.New(kvcache.Config{
			BlockTokens: m.Executor.BlockTokens, NumBlocks: m.Executor.NumBlocks, HostBlocks: m.Executor.HostBlocks, Eviction: c.cfg.Eviction,
		})
		if pair := m.Executor.CostPair; err != nil || m.Executor.VocabSize < 1 || m.Executor.MaxModelLen < 1 ||
			math.IsNaN(pair) || math.IsInf(pair, 0) {
			return nil
		}
		e := &executor{peer: p, info: *m.Executor, index: index, cost: cost.New(m.Executor), rank: c.freeRank(), salt: hashName(m.Name)}
		e.pool = c.pool(e.info.Model)
		e.queue = newQueue(c.policy, &e.cost, index, m.Executor.BlockTokens, &e.pool.waiting)
		e.pool.executors = append(e.pool.executors, e)
		e.pool.elect()
		p.executor = e
		c.executors = append(c.executors, e)
		c.noteCleared(e)
	default:
		return nil
	}
	c.peers[from] = p
	c.named[name] = p
	delete(c.loading, m.Name)
	return p
}

func (c *Core) pool(model string) *pool {
	p := c.pools[model]
	if p == nil {
		p = &pool{model: model, places: places{by: map[kvcache.Hash][]*executor{}}}
		c.pools[model] = p
	}
	return p
}

// lost removes a peer that is gone without a word. Should it still be there, the Welcome to its
// next Hello has a new epoch, so that it knows that its state here is gone.
func (c *Core) lost(p *peer) {
	if p == nil {
		return
	}
	c.losses++
	c.remove(p)
}

func (c *Core) remove(p *peer) {
	if p.executor != nil {
		c.removeExecutor(p)
		return
	}
	delete(c.peers, p.id)
	delete(c.named, p.name)
	c.frontends = slices.DeleteFunc(c.frontends, func(f *frontend) bool { return f == p.frontend })
	jobs := jobsInOrder(maps.Values(p.frontend.jobs))
	for _, waiting := range []bool{true, false} { // those in passes last: a pass that ends starts another
		for _, j := range jobs {
			if (j.state != stateInPass) == waiting {
				c.withdraw(j)
			}
		}
	}
}

// removeExecutor removes an executor and finds other places for its jobs.
func (c *Core) removeExecutor(p *peer) {
	e := p.executor
	delete(c.peers, p.id)
	delete(c.named, p.name)
	isIt := func(other *executor) bool { return other == e }
	c.executors = slices.DeleteFunc(c.executors, isIt)
	e.pool.executors = slices.DeleteFunc(e.pool.executors, isIt)
	c.noteCleared(e)
	e.pool.waiting -= e.queue.size
	e.pool.places.sweep(e)
	e.pool.elect()
	if p.settled() {
		c.stats.ExecutorLost++
	}
	c.executorsChanged()
	c.evacuate(e)
}

// evacuate finds other places for the jobs of an executor that is gone. Those in its running pass may
// have killed it.
func (c *Core) evacuate(e *executor) {
	var jobs []*job
	for _, ps := range e.allPasses() {
		for _, j := range ps.items {
			switch {
			case j.cancelled:
				c.forget(j)
				continue
			case ps == e.running && e.peer.settled():
				j.deaths++
				c.stats.Retries++
			}
			jobs = append(jobs, j)
		}
	}
	jobs = jobsInOrder(slices.Values(slices.AppendSeq(jobs, e.queue.all())))
	for _, j := range jobs {
		j.lease, j.executor, j.blocked = nil, nil, false
		j.found(0, 0)
		j.leave()
		if j.deaths >= maxDeaths {
			c.fail(j, engine.Errorf(engine.CodeExecutorLost,
				"%d executors died while they ran this request, the last one is %s; it is not run again", j.deaths, e.peer.name.name))
		}
	}
	c.placeAll(slices.DeleteFunc(jobs, func(j *job) bool { return j.deaths >= maxDeaths }))
}

// welcome answers a Hello. What there is to know of others is for frontends.
func (c *Core) welcome(p *peer) *wire.Welcome {
	w := &wire.Welcome{Epoch: p.welcomed}
	if p.frontend == nil {
		return w
	}
	w.Stats, w.PassTokens = c.stats, slices.Clone(c.passTokens[:])
	used, blocks := 0, 0
	w.States = c.states()
	for _, e := range c.executors {
		w.Executors = append(w.Executors, e.info)
		for _, ps := range e.allPasses() {
			w.Running += len(ps.items)
		}
		w.Waiting += e.queue.size
		used += e.index.Used()
		blocks += e.index.Blocks()
	}
	for _, model := range sortedKeys(c.pools) {
		w.Waiting += len(c.pools[model].orphans)
	}
	if blocks > 0 {
		w.CacheUsed = float64(used) / float64(blocks)
	}
	return w
}

// executorsChanged tells the frontends at once which executors there are.
func (c *Core) executorsChanged() {
	for _, f := range c.frontends {
		c.send(f.peer.id, c.welcome(f.peer))
	}
}

func (c *Core) peersInOrder() []*peer {
	return slices.SortedFunc(maps.Values(c.peers), func(a, b *peer) int { return cmp.Compare(a.id, b.id) })
}
