package dispatch

import (
	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/scheduler/packing"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// filling fills a pass with jobs that come next, as long as each one's company pays; see package packing.
//
// Only the very next job of each kind is ever considered, so nobody in its lane is overtaken because of
// packing.
type filling struct {
	packing.Pass
	lane  *Lane
	queue *queue.Queue // of the lane, for the pass's class
	pass  *Pass
	limit int // of items
}

// packed is a job as packing sees it.
func (j *Job) packed() packing.Item {
	return packing.Item{Job: &j.Job, Request: j.Submit.Request, Again: j.Generated()+1 < j.Asks.Max, Scored: j.sharesScores(), Top: j.Asks.Ask.PromptTop}
}

// fill packs the requests that come next in its lane into a pass that has its first. Its own kind goes before the other.
func (p *Pass) fill() {
	first := p.Items[0]
	if first.Deaths > 0 || p.Lane.most < 2 {
		return // one that may have killed an executor runs alone
	}
	k := filling{Pass: packing.New(&p.Lane.Cost), lane: p.Lane, queue: p.Lane.QueueOf(p.class), pass: p, limit: p.Lane.most}
	k.Add(first.packed())
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
func (k *filling) addByPolicy(rows int) {
	for len(k.pass.Items) < k.limit {
		j := k.lane.unblocked(k.pass.class)
		if j == nil || j.Deaths > 0 || k.Rows+packing.MostRows(&j.Job, j.Class == Lowest) > rows || j.Class == Live && k.lane.Executor.parkedBefore(j) >= 0 {
			return
		}
		if j.Loads > 0 && k.lane.Cache.Index.Available() < j.Cached {
			return // there may be no room for what it is to load, and it would compute that
		}
		if !k.pays(j) || k.Fills(j.packed()) {
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
func (k *filling) rideAlong() {
	if k.Rows < k.mixedRows() {
		k.addGenerating()
	}
}

// mostRows is how many rows a pass may have.
func (k *filling) mostRows() int {
	if k.pass.class == Lowest {
		return min(engine.LowestRows, k.lane.Limits.MaxPassRows)
	}
	return k.lane.Limits.MaxPassRows
}

// addGenerating packs jobs that go on from a token, in turn.
func (k *filling) addGenerating() {
	for len(k.pass.Items) < k.limit && k.Rows < k.mostRows() {
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
func (k *filling) mixedRows() int {
	most := k.mostRows()
	if _, pauses := k.lane.shared.Policy.(queue.Preemptive); pauses && k.lane.Executor.Info.CanPause {
		return min(preemptMargin, most)
	}
	return most
}

// pays says whether a waiting job's company is worth it.
func (k *filling) pays(j *Job) bool {
	weight := 0.0
	if k.Faces() && !j.Continues() {
		weight = k.queue.Weigh(&j.Job, k.lane.Executor.scale(k.lane, k.pass.class, 0))
	}
	return k.Pays(j.packed(), k.queue.Len(), weight)
}

// face lists the lanes with which jobs are to be compared.
func (k *filling) face() {
	e := k.lane.Executor
	busy := e.lines[k.pass.class].busy
	if len(busy) < 2 {
		return
	}
	for _, l := range busy {
		if j := l.head(k.pass.class, 0); j != nil && l != k.lane && l.Ready() {
			q := l.QueueOf(k.pass.class)
			k.Face(q.Weigh(&j.Job, e.scale(l, k.pass.class, 0)), q.Len())
		}
	}
}

func (k *filling) add(j *Job) {
	k.pass.Items = append(k.pass.Items, j)
	k.Add(j.packed())
}
