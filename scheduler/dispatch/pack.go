package dispatch

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// packing fills a pass with jobs that come next, as long as each one's company is predicted to lower the
// sum of completion times.
//
// Packing a job with m more tokens spares everybody who waits behind, and itself, one base cost,
// and delays the k jobs already in the pass by m. Those in the pass that will generate once more wait behind
// as well. Those of the job's own request are not delayed, since their answer waits for it, too; but a job of more than
// a base cost counts as if they were, so that passes stay short for those who come meanwhile.
//
// Only the very next job of each kind is ever considered, so nobody in its lane is overtaken because of
// packing. Jobs of other lanes that would go before it are: they are delayed like those in the pass.
type packing struct {
	lane    *Lane
	queue   *queue.Queue // of the lane, for the pass's class
	pass    *Pass
	limit   int                   // of items
	rows    int                   // new tokens so far
	again   int                   // items that will be back for another token
	missing map[kvcache.Hash]bool // the first blocks that items fill or load
	others  []rival               // lanes whose jobs wait too
}

// rival is a lane whose next job is of some weight.
type rival struct {
	weight  float64
	waiting int
}

// fill packs the requests that come next in its lane into a pass that has its first. Its own kind goes before the other.
func (p *Pass) fill() {
	first := p.Items[0]
	k := packing{lane: p.Lane, queue: p.Lane.QueueOf(p.class), pass: p, limit: p.Lane.most, missing: map[kvcache.Hash]bool{}}
	if first.Deaths > 0 || k.limit < 2 {
		return // one that may have killed an executor runs alone
	}
	k.note(first)
	k.face()
	if first.Continues() {
		k.addGenerating()
		k.addByPolicy(k.mixedRows())
	} else {
		k.addByPolicy(k.mostRows())
		k.rideAlong()
	}
}

// addByPolicy packs jobs that are to be computed, up to so many rows in all.
func (k *packing) addByPolicy(rows int) {
	for len(k.pass.Items) < k.limit {
		j := k.lane.unblocked(k.pass.class)
		if j == nil || j.Deaths > 0 || k.rows+mostRows(j) > rows || j.Class == Live && k.lane.Executor.parkedBefore(j) >= 0 {
			return
		}
		if j.Loads > 0 && k.lane.Cache.Index.Available() < j.Cached {
			return // there may be no room for what it is to load, and it would compute that
		}
		// A prefix that this pass is about to fill, or load, is cheaper to read from the next one.
		if h, ok := nextMissing(j); !k.pays(j) || ok && k.missing[h] {
			return
		}
		k.lane.Take(j)
		if !k.lane.lease(j) {
			k.lane.push(j)
			return
		}
		k.add(j)
	}
}

// rideAlong lets jobs that generate join a pass that began with another, if it is one that they may.
func (k *packing) rideAlong() {
	if k.rows < k.mixedRows() {
		k.addGenerating()
	}
}

// mostRows is how many rows a pass may have.
func (k *packing) mostRows() int {
	if k.pass.class == Lowest {
		return min(engine.LowestRows, k.lane.Limits.MaxPassRows)
	}
	return k.lane.Limits.MaxPassRows
}

// addGenerating packs jobs that go on from a token, in turn.
func (k *packing) addGenerating() {
	for len(k.pass.Items) < k.limit && k.rows < k.mostRows() {
		j := of(k.queue.Turn())
		if j == nil || !k.pays(j) {
			return
		}
		k.lane.Take(j)
		k.add(j)
	}
}

// mixedRows is how many rows a pass of both kinds may have. One that may be paused has none that generate:
// they would stand still with it.
func (k *packing) mixedRows() int {
	most := k.mostRows()
	if _, pauses := k.lane.shared.Policy.(queue.Preemptive); pauses && k.lane.Executor.Info.CanPause {
		return min(preemptMargin, most)
	}
	return most
}

// pays says whether a waiting job's company is worth it.
func (k *packing) pays(j *Job) bool {
	m := &k.lane.Cost
	added := m.Extra(j.Size(j.CachedTokens())) + m.Load*float64(j.Loads)
	delayed := len(k.pass.Items) + k.overtaken(j)
	if added <= m.Base {
		delayed -= k.siblings(j)
	}
	return m.Base*float64(k.queue.Len()+k.again) > added*float64(delayed)
}

// siblings is how many jobs in the pass are of a job's request.
func (k *packing) siblings(j *Job) (n int) {
	for _, other := range k.pass.Items {
		if j.Submit.Request != 0 && other.Submit.Request == j.Submit.Request {
			n++
		}
	}
	return n
}

// face lists the lanes with which jobs are to be compared.
func (k *packing) face() {
	e := k.lane.Executor
	busy := e.lines[k.pass.class].busy
	if len(busy) < 2 {
		return
	}
	for _, l := range busy {
		if j := l.head(k.pass.class, 0); j != nil && l != k.lane && l.Ready() {
			q := l.QueueOf(k.pass.class)
			k.others = append(k.others, rival{q.Weigh(&j.Job, e.scale(l, k.pass.class, 0)), q.Len()})
		}
	}
}

// overtaken is how many jobs of other lanes wait behind one that would go before a job.
func (k *packing) overtaken(j *Job) (n int) {
	if len(k.others) == 0 || j.Continues() {
		return 0
	}
	weight := k.queue.Weigh(&j.Job, k.lane.Executor.scale(k.lane, k.pass.class, 0))
	for _, o := range k.others {
		if o.weight < weight {
			n += o.waiting
		}
	}
	return n
}

func (k *packing) add(j *Job) {
	k.pass.Items = append(k.pass.Items, j)
	k.note(j)
}

// note counts what an item adds to the pass.
func (k *packing) note(j *Job) {
	k.rows += newRows(j)
	if j.Generated()+1 < j.Asks.Max {
		k.again++
	}
	if h, ok := nextMissing(j); ok {
		k.missing[h] = true
	}
}

// newRows is the number of tokens a job would compute.
func newRows(j *Job) int { return j.Len() - j.CachedTokens() }

// mostRows is the number of tokens that a job may have to compute, once it has its lease: one that needs
// pages of its own takes the page of a part before the part, and a lowest one may find no page for what is in host
// memory; see kvcache.Part and kvcache.Request.
func mostRows(j *Job) int {
	rows := newRows(j)
	if j.Paged {
		rows += j.Part
	}
	if j.Class == Lowest {
		rows += j.Loads * j.ChainOf
	}
	return rows
}

// nextMissing is the first full block of a job's prompt that is not on the device.
func nextMissing(j *Job) (kvcache.Hash, bool) {
	if device := j.Cached - j.Loads; !j.Continues() && device < j.Usable() {
		return j.Chain[device], true
	}
	return kvcache.Hash{}, false
}
