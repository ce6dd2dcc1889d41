package executors

import (
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
)

// places remembers in which instances of a pool prompts that begin with a block are waiting, running
// or in the cache, so that routing need not ask all of them. It lists every such instance, and for a
// while ones where that is over.
type places struct {
	by      map[kvcache.Hash][]*Instance
	entries int
	kept    int // entries that the last sweep left
}

// instancesFor lists the instances with which a job may share a prefix, if they have blocks of its chain's size.
func (p *places) instancesFor(j *Job) []*Instance {
	if len(j.Chain) == 0 {
		return nil
	}
	return p.by[j.Chain[0]]
}

// sweepAbove is how many entries are not worth a sweep.
const sweepAbove = 4096

// addPlace notes that a job is in an instance.
func (p *places) addPlace(j *Job, inst *Instance) {
	if list := p.instancesFor(j); len(j.Chain) > 0 && !slices.Contains(list, inst) {
		p.by[j.Chain[0]] = append(list, inst)
		p.entries++
	}
}

// sweepStale sweeps when half of the entries may be stale.
func (p *places) sweepStale() {
	if p.entries > sweepAbove && p.entries > 2*p.kept {
		p.forgetInstance(nil)
	}
}

// forgetInstance drops the entries that are stale, and those of an instance that is gone.
func (p *places) forgetInstance(gone *Instance) {
	p.entries = 0
	begun := map[*Instance]map[kvcache.Hash]bool{}
	for h, list := range p.by {
		list = slices.DeleteFunc(list, func(inst *Instance) bool {
			if inst != gone && begun[inst] == nil {
				begun[inst] = firstBlocks(inst)
			}
			return inst == gone || !begun[inst][h] && !isCached(inst, h)
		})
		if len(list) == 0 {
			delete(p.by, h)
			continue
		}
		p.by[h] = list
		p.entries += len(list)
	}
	p.kept = p.entries
}

// isCached says whether a block that begins a prompt is in an instance's cache.
func isCached(inst *Instance, h kvcache.Hash) bool {
	_, reach := inst.Cache.Index.Reach([]kvcache.Hash{h})
	return reach > 0
}

// firstBlocks are the blocks with which the prompts of an instance's jobs begin, those that wait and those in passes.
func firstBlocks(inst *Instance) map[kvcache.Hash]bool {
	first := map[kvcache.Hash]bool{}
	jobs := inst.Jobs()
	for _, p := range inst.Passes() {
		jobs = append(jobs, p.Items...)
	}
	for _, j := range jobs {
		if len(j.Chain) > 0 {
			first[j.Chain[0]] = true
		}
	}
	return first
}
