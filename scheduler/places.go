package scheduler

import (
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
)

// places remembers on which executors of a pool prompts that begin with a block are waiting, running
// or in the cache, so that routing need not ask all of them. It lists every such executor, and for a
// while ones where that is over.
type places struct {
	by      map[kvcache.Hash][]*executor
	entries int
	kept    int // entries that the last sweep left
}

// sweepAbove is how many entries are not worth a sweep.
const sweepAbove = 4096

// add notes that a job is in an executor's queue or in a pass there.
func (p *places) add(j *job, e *executor) {
	if len(j.chain) == 0 {
		return
	}
	if list := p.by[j.chain[0]]; !slices.Contains(list, e) {
		p.by[j.chain[0]] = append(list, e)
		p.entries++
	}
}

// trim sweeps when half of the entries may be stale.
func (p *places) trim() {
	if p.entries > sweepAbove && p.entries > 2*p.kept {
		p.sweep(nil)
	}
}

// sweep drops the entries that are stale, and those of an executor that is gone.
func (p *places) sweep(gone *executor) {
	p.entries = 0
	for h, list := range p.by {
		list = slices.DeleteFunc(list, func(e *executor) bool { return e == gone || !e.begun(h) })
		if len(list) == 0 {
			delete(p.by, h)
			continue
		}
		p.by[h] = list
		p.entries += len(list)
	}
	p.kept = p.entries
}

// begun says whether a prompt that begins with a block is waiting here, running or in the cache.
func (e *executor) begun(h kvcache.Hash) bool {
	if _, cached := e.index.Reach([]kvcache.Hash{h}); cached > 0 || e.queue.begins(h) {
		return true
	}
	for _, p := range e.allPasses() {
		for _, j := range p.items {
			if len(j.chain) > 0 && j.chain[0] == h {
				return true
			}
		}
	}
	return false
}
