// Package packing says which jobs are worth sharing a pass: those whose company is predicted to lower the sum of completion
// times.
//
// Packing a job with m more tokens spares everybody who waits behind, and itself, one base cost,
// and delays the k jobs already in the pass by m. Those in the pass that will generate once more wait behind
// as well. Those of the job's own request are not delayed, since their answer waits for it, too; but a job of more than
// a base cost counts as if they were, so that passes stay short for those who come meanwhile.
//
// A job that would read from the next pass what this one computes, a block or the scores of one, is left to that.
//
// Jobs of other lanes that would go before a job are delayed like those in the pass.
package packing

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// Item is a job that is in a pass, or may be.
type Item struct {
	*queue.Job
	Request engine.JobID // that it is a part of; 0: of none
	Again   bool         // it will be back for another token
	Scored  bool         // the scores of all its prompt's positions are asked for
	Top     int          // with so many of the likeliest at each
}

// Pass is what is known of a pass while it is filled.
type Pass struct {
	Rows int // new tokens so far

	cost     *cost.Model
	items    int
	requests []engine.JobID        // of the items that are part of one
	again    int                   // items that will be back
	missing  map[kvcache.Hash]bool // the first blocks that items fill or load
	unknown  map[kvcache.Hash]int  // the first blocks that items score, with one more than the likeliest that are told
	rivals   []rival
}

// rival is a lane whose next job is of some weight.
type rival struct {
	weight  float64
	waiting int
}

// New makes a pass without items, of a model of such costs.
func New(m *cost.Model) Pass {
	return Pass{cost: m, missing: map[kvcache.Hash]bool{}, unknown: map[kvcache.Hash]int{}}
}

// Face adds a lane with which jobs are to be compared: the weight of its next job, and how many wait there.
func (p *Pass) Face(weight float64, waiting int) {
	p.rivals = append(p.rivals, rival{weight, waiting})
}

// Faces says whether there are such lanes.
func (p *Pass) Faces() bool { return len(p.rivals) > 0 }

// Add adds an item.
func (p *Pass) Add(i Item) {
	p.Rows += newRows(i.Job)
	p.items++
	if i.Request != 0 {
		p.requests = append(p.requests, i.Request)
	}
	if i.Again {
		p.again++
	}
	if h, ok := missing(i.Job, len(i.Chain)); ok {
		p.missing[h] = true
	}
	if h, ok := i.unknown(); ok {
		p.unknown[h] = max(p.unknown[h], i.Top+1)
	}
}

// Fills says that the pass is about to fill, load or score the block that a job would read next: it is cheaper to read from
// the next pass.
func (p *Pass) Fills(i Item) bool {
	h, ok := missing(i.Job, i.Usable())
	if ok && p.missing[h] {
		return true
	}
	h, ok = i.unknown()
	return ok && p.unknown[h] > i.Top
}

// Pays says whether a waiting job's company is worth it, where so many wait in its lane. Its weight counts where there are
// other lanes.
func (p *Pass) Pays(i Item, waiting int, weight float64) bool {
	added := p.cost.Extra(i.Size(i.CachedTokens())) + p.cost.Load*float64(i.Loads)
	delayed := p.items + p.overtaken(i.Job, weight)
	if added <= p.cost.Base {
		delayed -= p.siblings(i)
	}
	return p.cost.Base*float64(waiting+p.again) > added*float64(delayed)
}

// siblings is how many items are of a job's request.
func (p *Pass) siblings(i Item) (n int) {
	for _, request := range p.requests {
		if request == i.Request {
			n++
		}
	}
	return n
}

// overtaken is how many jobs of other lanes wait behind one that would go before a job.
func (p *Pass) overtaken(j *queue.Job, weight float64) (n int) {
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

// MostRows is the number of tokens that a job may have to compute, once it has its lease: one that needs
// pages of its own takes the page of a part before the part, and a lowest one may find no page for what is in host
// memory; see kvcache.Part and kvcache.Request.
func MostRows(j *queue.Job, lowest bool) int {
	rows := newRows(j)
	if j.Paged {
		rows += j.Part
	}
	if lowest {
		rows += j.Loads * j.ChainOf
	}
	return rows
}

// missing is the first of so many leading blocks of a job's prompt that is not on the device.
func missing(j *queue.Job, blocks int) (kvcache.Hash, bool) {
	if device := j.Cached - j.Loads; !j.Continues() && device < blocks {
		return j.Chain[device], true
	}
	return kvcache.Hash{}, false
}

// unknown is the first full block of a prompt whose scores are asked for and not known.
func (i *Item) unknown() (kvcache.Hash, bool) {
	if !i.Scored || len(i.Chain) == 0 || i.Known/i.ChainOf >= len(i.Chain) {
		return kvcache.Hash{}, false
	}
	return i.Chain[i.Known/i.ChainOf], true
}
