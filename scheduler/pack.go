package scheduler

import "github.com/prefillonly/prefillonly/kvcache"

// packing fills a pass with jobs that come next, as long as each one's company is predicted to lower the
// sum of completion times.
//
// Packing a job with m more tokens spares everybody who waits behind, and itself, one base cost,
// and delays the k jobs already in the pass by m. Those in the pass that will generate once more wait behind
// as well. Only the very next job of each kind is ever considered, so nobody is overtaken because of packing.
type packing struct {
	core    *Core
	e       *executor
	pass    *pass
	limit   int                   // of items
	rows    int                   // new tokens so far
	again   int                   // items that will be back for another token
	missing map[kvcache.Hash]bool // the first blocks that items fill or load
}

// fillPass packs the jobs that come next into a pass that has its first. Its own kind goes before the other.
func (c *Core) fillPass(e *executor, p *pass) {
	first := p.items[0]
	k := packing{core: c, e: e, pass: p, limit: min(c.cfg.MaxPassItems, e.info.MaxPassRows), missing: map[kvcache.Hash]bool{}}
	if first.deaths > 0 || k.limit < 2 {
		return // one that may have killed an executor runs alone
	}
	k.note(first)
	if first.continuing() {
		k.addGenerating()
		k.addByPolicy(k.mixedRows())
	} else {
		k.addByPolicy(e.info.MaxPassRows)
		k.rideAlong()
	}
}

// addByPolicy packs jobs that are to be computed, up to so many rows in all.
func (k *packing) addByPolicy(rows int) {
	for len(k.pass.items) < k.limit {
		j := k.core.nextUnblocked(k.e)
		if j == nil || j.deaths > 0 || k.rows+mostRows(j) > rows || k.core.parkedBefore(k.e, j) >= 0 {
			return
		}
		if j.loads > 0 && k.e.index.Available() < j.cached {
			return // there may be no room for what it is to load, and it would compute that
		}
		// A prefix that this pass is about to fill, or load, is cheaper to read from the next one.
		if h, ok := nextMissing(j); !k.pays(j) || ok && k.missing[h] {
			return
		}
		k.e.queue.remove(j)
		if !k.core.lease(k.e, j) {
			k.e.queue.push(j)
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

// addGenerating packs jobs that go on from a token, in turn.
func (k *packing) addGenerating() {
	for len(k.pass.items) < k.limit && k.rows < k.e.info.MaxPassRows {
		j := k.e.queue.turn()
		if j == nil || !k.pays(j) {
			return
		}
		k.e.queue.remove(j)
		k.add(j)
	}
}

// mixedRows is how many rows a pass of both kinds may have. One that may be paused has none that generate:
// they would stand still with it.
func (k *packing) mixedRows() int {
	if _, pauses := k.core.policy.(preemptivePolicy); pauses && k.e.info.CanPause {
		return min(preemptMargin, k.e.info.MaxPassRows)
	}
	return k.e.info.MaxPassRows
}

// pays says whether a waiting job's company is worth it.
func (k *packing) pays(j *job) bool {
	m := &k.e.cost
	added := m.Extra(len(j.seq), j.cachedTokens()) + m.Load*float64(j.loads)
	return m.Base*float64(k.e.queue.size+k.again) > added*float64(len(k.pass.items))
}

func (k *packing) add(j *job) {
	k.pass.items = append(k.pass.items, j)
	k.note(j)
}

// note counts what an item adds to the pass.
func (k *packing) note(j *job) {
	k.rows += newRows(j)
	if j.generated()+1 < j.submit.MaxTokens {
		k.again++
	}
	if h, ok := nextMissing(j); ok {
		k.missing[h] = true
	}
}

// newRows is the number of tokens a job would compute.
func newRows(j *job) int { return len(j.seq) - j.cachedTokens() }

// mostRows is the number of tokens that a job may have to compute, once it has its lease: one that needs
// pages of its own takes the page of a part before the part; see kvcache.Part.
func mostRows(j *job) int {
	if j.paged {
		return newRows(j) + j.part
	}
	return newRows(j)
}

// nextMissing is the first full block of a job's prompt that is not on the device.
func nextMissing(j *job) (kvcache.Hash, bool) {
	if device := j.cached - j.loads; !j.continuing() && device < j.usable() {
		return j.chain[device], true
	}
	return kvcache.Hash{}, false
}
