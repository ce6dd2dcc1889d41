package fleet

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/pages"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// Begin begins the next pass of an idle executor, or lets a paused one go on, if there is one. Frames that are
// promised their deadlines go first. A pass whose weights are not on the device, or for which there is no room, does
// not begin.
func (f *Fleet) Begin(e *Executor) {
	if e.Full {
		f.resume(e, f.parkedBefore(e, nil))
		return
	}
	if f.start(e, f.due(e), false) || e.Device.Loading() && !e.Info.Aside {
		return // a load takes the device's own time
	}
	if j := f.turn(e, live); j != nil && e.passedOver && f.beginWith(j) {
		return
	}
	if f.choose(e, live) {
		return
	}
	if j := f.turn(e, live); j != nil {
		f.beginWith(j)
	}
}

// turn is the job of a class that is to generate next on an executor: lanes in which jobs do take turns. It is nil if
// there is none.
func (f *Fleet) turn(e *Executor, c class) *Job {
	line := e.lineOf(c)
	if line.turns == 0 {
		return nil
	}
	var best *Lane
	for _, l := range line.busy {
		if l.Ready() && l.queue(c).Generating() > 0 && (best == nil || l.turned < best.turned) {
			best = l
		}
	}
	if best == nil {
		return nil
	}
	return of(best.queue(c).Turn())
}

// choose begins a pass with the job of a class that is to be computed next, or with frames, or lets a paused pass go
// on; it says whether there was one. Jobs that lack pages wait for those that generate to end.
func (f *Fleet) choose(e *Executor, c class) bool {
	tried := map[*Lane]int{}
	for {
		l, isFrame := f.best(e, c, tried)
		if l == nil {
			return c == live && f.resume(e, f.parkedBefore(e, nil))
		}
		if isFrame {
			if f.start(e, l.batch(l.frames.jobs, f.Now), false) {
				return true
			}
			tried[l] = notNow
			continue
		}
		j := f.first(l, c, tried[l])
		if i := f.parkedBefore(e, j); i >= 0 && c == live {
			return f.resume(e, i)
		}
		if f.beginWith(j) {
			return true
		}
		tried[l]++
	}
}

// What has been tried of a lane.
const (
	noPages = 1 // there were none for its next job
	notNow  = 2 // nor can any other begin
)

// best finds the lane whose next job is to be computed before those of its class on the device, or whose frames are.
func (f *Fleet) best(e *Executor, c class, tried map[*Lane]int) (best *Lane, isFrame bool) {
	least, request, busy := math.Inf(1), (*Job)(nil), e.lineOf(c).busy
	for _, l := range busy {
		if !l.Ready() || tried[l] == notNow {
			continue
		}
		j := f.head(l, c, tried[l])
		if j == nil {
			continue
		}
		weight := 0.0
		if len(busy) > 1 {
			weight = l.queue(c).Weigh(&j.Job, e.scale(l, c, f.Seconds(), 0))
		}
		if best == nil || weight < least || weight == least && j.Order < request.Order {
			best, least, request = l, weight, j
		}
	}
	if e.feeds == 0 || c == lowest {
		return best, false
	}
	limit := math.Inf(1)
	if best != nil {
		limit = f.urgency(best, request)
	}
	for _, l := range busy {
		if !l.Ready() || tried[l] == notNow {
			continue
		}
		if w, ok := l.frameWork(f.Now); ok && w.Key(0, 0) < limit {
			best, isFrame, limit = l, true, w.Key(0, 0)
		}
	}
	return best, isFrame
}

// urgency is the key in seconds by which a request is compared with frames, whatever the policy.
func (f *Fleet) urgency(l *Lane, j *Job) float64 {
	return l.Cost.Seconds(j.Left()) - l.Executor.aging*(f.Seconds()-j.Aged)
}

// head is the job of a class that is a lane's policy's choice, or if there are no pages for that, of those that need none.
func (f *Fleet) head(l *Lane, c class, tried int) *Job {
	if tried == noPages {
		return of(l.queue(c).FirstPlain(f.Seconds()))
	}
	var blocked *queue.Job
	if j := l.blocked[c]; j != nil {
		blocked = &j.Job
	}
	return of(l.queue(c).First(f.Seconds(), blocked))
}

// first is head, with what the job finds of the cache as it is now.
func (f *Fleet) first(l *Lane, c class, tried int) *Job {
	j := f.head(l, c, tried)
	if j != nil {
		l.queue(c).Find(&j.Job)
	}
	return j
}

// unblocked is the job of a class that the policy runs next in a lane among those for which there may be pages; nil if
// there is none.
func (f *Fleet) unblocked(l *Lane, c class) *Job {
	if l.blocked[c] != nil {
		return f.first(l, c, noPages)
	}
	return f.first(l, c, 0)
}

// beginWith begins a pass with a waiting request, and those that are to share it, if that has its pages and there is
// room for the pass.
func (f *Fleet) beginWith(j *Job) bool {
	l := j.Lane
	if !f.beginArea(l, j.class) {
		return false
	}
	f.take(j)
	if !f.lease(j) {
		f.push(j)
		l.Executor.endArea(l)
		return false
	}
	p := newPass(j)
	f.fill(p)
	f.run(l.Executor, p, false)
	return true
}

// start begins a pass of waiting frames.
func (f *Fleet) start(e *Executor, frames []*Job, nested bool) bool {
	if len(frames) == 0 || !f.beginArea(frames[0].Lane, live) {
		return false
	}
	p := newPass(frames[0])
	p.Items = slices.Clone(frames)
	for _, j := range p.Items {
		f.take(j)
		f.lease(j)
	}
	f.run(e, p, nested)
	return true
}

// Nest begins a pass of frames inside the running one.
func (f *Fleet) Nest(e *Executor, frames []*Job) {
	if f.start(e, frames, true) {
		f.Stats.Nested++
	}
}

// run sends a pass whose jobs have their leases.
func (f *Fleet) run(e *Executor, p *Pass, nested bool) {
	f.passes++
	p.ID = wire.PassID(f.passes)
	p.Started = f.Now
	l := p.Lane
	run := &wire.Run{Pass: p.ID, Model: l.Info.Name, Nested: nested, Lowest: p.class == lowest, Saves: l.Cache.Saves(), Items: make([]wire.RunItem, len(p.Items))}
	p.Work = cost.Work{Passes: 1}
	generates := p.Items[0].Continues()
	for i, j := range p.Items {
		w := j.Size(j.CachedTokens())
		if !j.Continues() {
			w.Loads = float64(len(j.Lease.Loads))
			run.Loads = pages.AppendLoads(run.Loads, &j.Job)
		}
		p.Work.Add(w)
		run.Items[i] = wire.RunItem{Job: j.Submit.ID, Work: j.item()}
		f.begin(j)
		l.Pool.places.add(j, l)
	}
	switch {
	case nested:
		e.Nested = p
	case p.class == lowest:
		e.Lowest = append(e.Lowest, p)
	default:
		e.Running = p
	}
	if !nested {
		if generates {
			l.turned = p.ID
		}
		e.lineOf(p.class).passedOver = !generates && f.turn(e, p.class) != nil
	}
	f.Send(e.Peer.ID, run)
}

// resume lets a paused pass go on.
func (f *Fleet) resume(e *Executor, i int) bool {
	if i < 0 {
		return false
	}
	p := e.Parked[i]
	e.Parked = slices.Delete(e.Parked, i, i+1)
	p.held += f.Now - p.parkedAt
	p.Started = f.Now
	e.Running = p
	f.Send(e.Peer.ID, &wire.Resume{Pass: p.ID})
	return true
}

// Preempt asks a running pass to make way, if the policy wants that and a place for it is left.
func (f *Fleet) Preempt(e *Executor) {
	if !f.mayPause(e) || e.Full {
		return
	}
	if l, isFrame := f.best(e, live, map[*Lane]int{}); l != nil && !isFrame {
		if j := f.unblocked(l, live); j != nil && f.overtakes(j, e.Running) {
			f.Pause(e)
		}
	}
}

// mayPause says whether the running pass can be paused.
func (f *Fleet) mayPause(e *Executor) bool {
	return e.Info.CanPause && !e.Running.pausing && len(e.Parked) < f.MaxPaused
}

// Pause asks the running pass to stand still at its next boundary, if it can.
func (f *Fleet) Pause(e *Executor) {
	if f.mayPause(e) {
		e.Running.pausing = true
		f.Send(e.Peer.ID, &wire.Pause{Pass: e.Running.ID})
	}
}

// overtakes asks the policy whether a waiting job goes before what remains of a started pass.
func (f *Fleet) overtakes(j *Job, p *Pass) bool {
	rule, ok := f.Policy.(queue.Preemptive)
	if !ok {
		return false
	}
	e := p.Lane.Executor
	held := p.held
	if p != e.Running {
		held += f.Now - p.parkedAt
	}
	left := e.left(p, f.Now)
	whole := e.spent(p, f.Now) + left
	margin := p.Lane.Cost.Seconds(cost.Work{Units: p.Lane.margin})
	needs := j.Lane.Cost.Seconds(j.Left()) + margin
	if j.Lane == p.Lane {
		// A pass that takes longer than the model says tells that one of the job may too.
		needs = needs * whole / p.Lane.Cost.Seconds(p.Work)
	}
	return rule.Overtakes(needs, left, held.Seconds(), whole)
}

// parkedBefore finds the paused pass that goes on before job j starts, -1 if there is none; j may be
// nil. A pass that may be held up no longer comes first, then the one with the least left.
func (f *Fleet) parkedBefore(e *Executor, j *Job) int {
	best := -1
	for i, p := range e.Parked {
		switch {
		case j != nil && f.overtakes(j, p):
		case best < 0, e.left(p, f.Now) < e.left(e.Parked[best], f.Now):
			best = i
		}
	}
	return best
}
