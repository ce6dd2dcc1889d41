package scheduler

import "github.com/prefillonly/prefillonly/kvcache"

// fillPass packs the jobs that come next in the policy's order into a pass, as long as each one's
// company is predicted to lower the sum of completion times.
//
// Packing a job with m more tokens spares everybody who waits behind, and itself, one base cost,
// and delays the k jobs already in the pass by m. Only the very next job is ever considered, so
// nobody is overtaken because of packing.
func (c *Core) fillPass(e *executor, p *pass) {
	limit := min(c.cfg.MaxPassItems, e.info.MaxPassRows)
	if p.items[0].deaths > 0 || limit < 2 {
		return // one that may have killed an executor runs alone
	}
	if b := e.blocked; b != nil {
		// It cannot run before others have, so that they do not overtake it.
		e.queue.remove(b)
		defer e.queue.push(b)
	}
	rows := newRows(p.items[0])
	missing := map[kvcache.Hash]bool{}
	noteMissing(missing, p.items[0])
	for len(p.items) < limit {
		j := e.queue.min(c.seconds())
		if j == nil || j.deaths > 0 || rows+newRows(j) > e.info.MaxPassRows || c.parkedBefore(e, j) >= 0 {
			return
		}
		if j.loads > 0 && e.index.Available() < j.cached {
			return // there may be no room for what it is to load, and it would compute that
		}
		added := e.cost.extra(len(j.seq), j.cachedTokens()) + e.cost.load*float64(j.loads)
		if e.cost.base*float64(e.queue.size) <= added*float64(len(p.items)) {
			return
		}
		// A prefix that this pass is about to fill, or load, is cheaper to read from the next one.
		if h, ok := nextMissing(j); ok && missing[h] {
			return
		}
		e.queue.remove(j)
		if !c.lease(e, j) {
			e.queue.push(j)
			return
		}
		rows += newRows(j)
		noteMissing(missing, j)
		p.items = append(p.items, j)
	}
}

// newRows is the number of tokens a job would compute.
func newRows(j *job) int { return len(j.seq) - j.cachedTokens() }

// nextMissing is the first full block of a job's prompt that is not on the device.
func nextMissing(j *job) (kvcache.Hash, bool) {
	if device := j.cached - j.loads; !j.continuing() && device < j.usable() {
		return j.chain[device], true
	}
	return kvcache.Hash{}, false
}

func noteMissing(missing map[kvcache.Hash]bool, j *job) {
	if h, ok := nextMissing(j); ok {
		missing[h] = true
	}
}
