package executors

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// PackedItem is a job that is in a pass, or may be.
type PackedItem struct {
	*queue.Job
	Request engine.JobID // that it is a part of; 0: of none
	Again   bool         // it will be back for another token
	Scored  bool         // the scores of all its prompt's positions are asked for
	Top     int          // with so many of the likeliest at each
}

// Packing is what is known of a pass while it is filled. It says which jobs are worth sharing the pass: those whose company is
// predicted to lower the sum of completion times.
//
// Packing a job with m more tokens spares everybody who waits behind, and itself, one base cost,
// and delays the k jobs already in the pass by m. Those in the pass that will generate once more wait behind
// as well. Those of the job's own request are not delayed, since their answer waits for it, too; but a job of more than
// a base cost counts as if they were, so that passes stay short for those who come meanwhile.
//
// A job that would read from the next pass what this one computes, a block or the scores of one, is left to that.
//
// Jobs of other instances that would go before a job are delayed like those in the pass.
type Packing struct {
	Rows int // new tokens so far

	cost     *cost.Model
	items    int
	requests []engine.JobID        // of the items that are part of one
	again    int                   // items that will be back
	missing  map[kvcache.Hash]bool // the first blocks that items fill or load
	unknown  map[kvcache.Hash]int  // the first blocks that items score, with one more than the likeliest that are told
	rivals   []rival
}

// rival is an instance whose next job is of some weight.
type rival struct {
	weight  float64
	waiting int
}

// newPacking makes a pass without items, of a model of such costs.
func newPacking(m *cost.Model) Packing {
	return Packing{cost: m, missing: map[kvcache.Hash]bool{}, unknown: map[kvcache.Hash]int{}}
}

// AddRival adds an instance with which jobs are to be compared: the weight of its next job, and how many wait there.
func (p *Packing) AddRival(weight float64, waiting int) {
	p.rivals = append(p.rivals, rival{weight, waiting})
}

// HasRivals says whether there are such instances.
func (p *Packing) HasRivals() bool { return len(p.rivals) > 0 }

// AddItem adds an item.
func (p *Packing) AddItem(i PackedItem) {
	p.Rows += newRows(i.Job)
	p.items++
	if i.Request != 0 {
		p.requests = append(p.requests, i.Request)
	}
	if i.Again {
		p.again++
	}
	if h, ok := firstMissing(i.Job, len(i.Chain)); ok {
		p.missing[h] = true
	}
	if h, ok := i.firstUnknown(); ok {
		p.unknown[h] = max(p.unknown[h], i.Top+1)
	}
}

// FillsNextBlockOf says that the pass is about to fill, load or score the block that a job would read next: it is cheaper to read from
// the next pass.
func (p *Packing) FillsNextBlockOf(i PackedItem) bool {
	h, ok := firstMissing(i.Job, i.Usable())
	if ok && p.missing[h] {
		return true
	}
	h, ok = i.firstUnknown()
	return ok && p.unknown[h] > i.Top
}

// PaysFor says whether a waiting job's company is worth it, where so many wait in its instance. Its weight counts where there are
// other instances.
func (p *Packing) PaysFor(i PackedItem, waiting int, weight float64) bool {
	added := p.cost.Extra(i.Size(i.CachedTokens())) + p.cost.Load*float64(i.Loads)
	delayed := p.items + p.countOvertaken(i.Job, weight)
	if added <= p.cost.Base {
		delayed -= p.countSiblings(i)
	}
	return p.cost.Base*float64(waiting+p.again) > added*float64(delayed)
}

// countSiblings is how many items are of a job's request.
func (p *Packing) countSiblings(i PackedItem) (n int) {
	for _, request := range p.requests {
		if request == i.Request {
			n++
		}
	}
	return n
}

// countOvertaken is how many jobs of other instances wait behind one that would go before a job.
func (p *Packing) countOvertaken(j *queue.Job, weight float64) (n int) {
	if j.Continues() {
		return 0
	}
	for _, r := range p.rivals {
		if r.weight < weight {
			n += r.waiting
		}
	}
	return n
}

// newRows is the number of tokens a job would compute.
func newRows(j *queue.Job) int { return j.Len() - j.CachedTokens() }

// mostNewRows is the number of tokens that a job may have to compute, once it has its lease: one that needs
// pages of its own takes the page of a part before the part, and a lowest one may find no page for what is in host
// memory; see kvcache.Part and kvcache.Request.
func mostNewRows(j *queue.Job, lowest bool) int {
	rows := newRows(j)
	if j.Paged {
		rows += j.Part
	}
	if lowest {
		rows += j.Loads * j.ChainOf
	}
	return rows
}

// firstMissing is the first of so many leading blocks of a job's prompt that is not on the device.
func firstMissing(j *queue.Job, blocks int) (kvcache.Hash, bool) {
	if device := j.Cached - j.Loads; !j.Continues() && device < blocks {
		return j.Chain[device], true
	}
	return kvcache.Hash{}, false
}

// firstUnknown is the first full block of a prompt whose scores are asked for and not known.
func (i *PackedItem) firstUnknown() (kvcache.Hash, bool) {
	if !i.Scored || len(i.Chain) == 0 || i.Known/i.ChainOf >= len(i.Chain) {
		return kvcache.Hash{}, false
	}
	return i.Chain[i.Known/i.ChainOf], true
}

// filling fills a pass with jobs that come next, as long as each one's company pays; see package packing.
//
// Only the very next job of each kind is ever considered, so nobody in its instance is overtaken because of
// packing.
type filling struct {
	Packing
	instance *Instance
	queue    *queue.OwnedQueue[*Job] // of the instance, for the pass's class
	pass     *Pass
	limit    int // of items
}

// packedItem is a job as packing sees it.
func (j *Job) packedItem() PackedItem {
	return PackedItem{Job: &j.Job, Request: j.Submit.Request, Again: j.Generated()+1 < j.Asks.Max, Scored: j.sharesScores(), Top: j.Asks.Ask.PromptTop}
}

// fillPass packs the requests that come next in its instance into a pass that has its first. Its own kind goes before the other.
func (p *Pass) fillPass() {
	first := p.Items[0]
	if first.Deaths > 0 || p.Instance.most < 2 {
		return // one that may have killed an executor runs alone
	}
	k := filling{Packing: newPacking(&p.Instance.Cost), instance: p.Instance, queue: p.Instance.QueueOf(p.class), pass: p, limit: p.Instance.most}
	k.AddItem(first.packedItem())
	k.addRivals()
	if first.Continues() {
		k.addGenerating()
		k.addByPolicy(k.mixedRows())
	} else {
		k.addByPolicy(k.mostRows())
		k.rideAlong()
	}
}

// addByPolicy packs jobs that are to be computed, up to so many rows in all.
func (k *filling) addByPolicy(rows int) {
	for len(k.pass.Items) < k.limit {
		j := k.instance.nextUnblockedJob(k.pass.class)
		if j == nil || j.Deaths > 0 || k.Rows+mostNewRows(&j.Job, j.Class == Lowest) > rows || j.Class == Live && k.instance.Executor.parkedBefore(j) >= 0 {
			return
		}
		if j.Loads > 0 && k.instance.Cache.Index.Available() < j.Cached {
			return // there may be no room for what it is to load, and it would compute that
		}
		if !k.paysFor(j) || k.FillsNextBlockOf(j.packedItem()) {
			return
		}
		k.instance.TakeJob(j)
		if !k.instance.leasePages(j) {
			k.instance.pushJob(j)
			return
		}
		k.addJob(j)
	}
}

// rideAlong lets jobs that generate join a pass that began with another, if it is one that they may.
func (k *filling) rideAlong() {
	if k.Rows < k.mixedRows() {
		k.addGenerating()
	}
}

// mostRows is how many rows a pass may have.
func (k *filling) mostRows() int {
	if k.pass.class == Lowest {
		return min(engine.LowestRows, k.instance.Limits.MaxPassRows)
	}
	return k.instance.Limits.MaxPassRows
}

// addGenerating packs jobs that go on from a token, in turn.
func (k *filling) addGenerating() {
	for len(k.pass.Items) < k.limit && k.Rows < k.mostRows() {
		j := k.queue.OwnerOf(k.queue.Turn())
		if j == nil || !k.paysFor(j) {
			return
		}
		k.instance.TakeJob(j)
		k.addJob(j)
	}
}

// mixedRows is how many rows a pass of both kinds may have. One that may be paused has none that generate:
// they would stand still with it.
func (k *filling) mixedRows() int {
	most := k.mostRows()
	if _, pauses := k.instance.shared.Policy.(queue.Preemptive); pauses && k.instance.Executor.Info.CanPause {
		return min(preemptMargin, most)
	}
	return most
}

// paysFor says whether a waiting job's company is worth it.
func (k *filling) paysFor(j *Job) bool {
	weight := 0.0
	if k.HasRivals() && !j.Continues() {
		weight = k.queue.Weigh(&j.Job, k.instance.Executor.queueScale(k.instance, k.pass.class, 0))
	}
	return k.PaysFor(j.packedItem(), k.queue.Len(), weight)
}

// addRivals lists the instances with which jobs are to be compared.
func (k *filling) addRivals() {
	e := k.instance.Executor
	busy := e.lines[k.pass.class].busy
	if len(busy) < 2 {
		return
	}
	for _, inst := range busy {
		if j := inst.headJob(k.pass.class, 0); j != nil && inst != k.instance && inst.Ready() {
			q := inst.QueueOf(k.pass.class)
			k.AddRival(q.Weigh(j, e.queueScale(inst, k.pass.class, 0)), q.Len())
		}
	}
}

func (k *filling) addJob(j *Job) {
	k.pass.Items = append(k.pass.Items, j)
	k.AddItem(j.packedItem())
}
