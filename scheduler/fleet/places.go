package fleet

import (
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
	"github.com/prefillonly/prefillonly/scheduler/dispatch"
)

// places remembers in which lanes of a pool prompts that begin with a block are waiting, running
// or in the cache, so that routing need not ask all of them. It lists every such lane, and for a
// while ones where that is over.
type places struct {
	by      map[kvcache.Hash][]*dispatch.Lane
	entries int
	kept    int // entries that the last sweep left
}

// of lists the lanes with which a job may share a prefix, if they have blocks of its chain's size.
func (p *places) of(j *dispatch.Job) []*dispatch.Lane {
	if len(j.Chain) == 0 {
		return nil
	}
	return p.by[j.Chain[0]]
}

// sweepAbove is how many entries are not worth a sweep.
const sweepAbove = 4096

// add notes that a job is in a lane.
func (p *places) add(j *dispatch.Job, l *dispatch.Lane) {
	if list := p.of(j); len(j.Chain) > 0 && !slices.Contains(list, l) {
		p.by[j.Chain[0]] = append(list, l)
		p.entries++
	}
}

// trim sweeps when half of the entries may be stale.
func (p *places) trim() {
	if p.entries > sweepAbove && p.entries > 2*p.kept {
		p.sweep(nil)
	}
}

// sweep drops the entries that are stale, and those of a lane that is gone.
func (p *places) sweep(gone *dispatch.Lane) {
	p.entries = 0
	begun := map[*dispatch.Lane]map[kvcache.Hash]bool{}
	for h, list := range p.by {
		list = slices.DeleteFunc(list, func(l *dispatch.Lane) bool {
			if l != gone && begun[l] == nil {
				begun[l] = firsts(l)
			}
			return l == gone || !begun[l][h] && !cached(l, h)
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

// cached says whether a block that begins a prompt is in a lane's cache.
func cached(l *dispatch.Lane, h kvcache.Hash) bool {
	_, reach := l.Cache.Index.Reach([]kvcache.Hash{h})
	return reach > 0
}

// firsts are the blocks with which the prompts of a lane's jobs begin, those that wait and those in passes.
func firsts(l *dispatch.Lane) map[kvcache.Hash]bool {
	first := map[kvcache.Hash]bool{}
	jobs := l.Jobs()
	for _, p := range l.Passes() {
		jobs = append(jobs, p.Items...)
	}
	for _, j := range jobs {
		if len(j.Chain) > 0 {
			first[j.Chain[0]] = true
		}
	}
	return first
}
