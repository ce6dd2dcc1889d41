package fleet

import (
	"slices"

	"github.com/prefillonly/prefillonly/kvcache"
)

// places remembers in which lanes of a pool prompts that begin with a block are waiting, running
// or in the cache, so that routing need not ask all of them. It lists every such lane, and for a
// while ones where that is over.
type places struct {
	by      map[kvcache.Hash][]*Lane
	entries int
	kept    int // entries that the last sweep left
}

// sweepAbove is how many entries are not worth a sweep.
const sweepAbove = 4096

// add notes that a job waits in a lane or is in a pass of it.
func (p *places) add(j *Job, l *Lane) {
	if len(j.Chain) == 0 {
		return
	}
	if list := p.by[j.Chain[0]]; !slices.Contains(list, l) {
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
func (p *places) sweep(gone *Lane) {
	p.entries = 0
	for h, list := range p.by {
		list = slices.DeleteFunc(list, func(l *Lane) bool { return l == gone || !l.begun(h) })
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
func (l *Lane) begun(h kvcache.Hash) bool {
	if _, cached := l.Cache.Index.Reach([]kvcache.Hash{h}); cached > 0 || l.Queue.Begins(h) || l.Lowest.Begins(h) {
		return true
	}
	for _, p := range l.Executor.Passes() {
		for _, j := range p.Items {
			if p.Lane == l && len(j.Chain) > 0 && j.Chain[0] == h {
				return true
			}
		}
	}
	return false
}
