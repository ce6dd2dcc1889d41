package executors

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// BeginPass begins the next pass of an idle executor, or lets a paused one go on, if there is one. Frames that are
// promised their deadlines go first. A pass whose weights are not on the device, or for which there is no room, does
// not begin.
func (e *Executor) BeginPass() {
	if e.Full {
		e.resumeParked(e.parkedBefore(nil))
		return
	}
	if e.startFrames(e.dueFrames(), false) || e.Loader.Loading() && !e.Info.Aside {
		return // a load takes the device's own time
	}
	if j := e.nextTurn(Live); j != nil && e.lines[Live].passedOver && e.beginWith(j) {
		return
	}
	if e.beginByChoice(Live) {
		return
	}
	if j := e.nextTurn(Live); j != nil {
		e.beginWith(j)
	}
}

// nextTurn is the job of a class that is to generate next on an executor: instances in which jobs do take turns. It is nil if
// there is none.
func (e *Executor) nextTurn(c Class) *Job {
	line := e.lines[c]
	if line.turns == 0 {
		return nil
	}
	var best *Instance
	for _, inst := range line.busy {
		if inst.Ready() && inst.QueueOf(c).Generating() > 0 && (best == nil || inst.turned < best.turned) {
			best = inst
		}
	}
	if best == nil {
		return nil
	}
	q := best.QueueOf(c)
	return q.OwnerOf(q.Turn())
}

// beginByChoice begins a pass with the job of a class that is to be computed next, or with frames, or lets a paused pass go
// on; it says whether there was one. Jobs that lack pages wait for those that generate to end.
func (e *Executor) beginByChoice(c Class) bool {
	tried := map[*Instance]int{}
	for {
		inst, isFrame := e.bestInstance(c, tried)
		if inst == nil {
			return c == Live && e.resumeParked(e.parkedBefore(nil))
		}
		if isFrame {
			if e.startFrames(inst.frames.NextBatch(e.shared.Now), false) {
				return true
			}
			tried[inst] = notNow
			continue
		}
		j := inst.firstJob(c, tried[inst])
		if i := e.parkedBefore(j); i >= 0 && c == Live {
			return e.resumeParked(i)
		}
		if e.beginWith(j) {
			return true
		}
		tried[inst]++
	}
}

// What has been tried of an instance.
const (
	noPages = 1 // there were none for its next job
	notNow  = 2 // nor can any other begin
)

// bestInstance finds the instance whose next job is to be computed before those of its class on the device, or whose frames are.
func (e *Executor) bestInstance(c Class, tried map[*Instance]int) (best *Instance, isFrame bool) {
	least, request, busy := math.Inf(1), (*queue.Job)(nil), e.lines[c].busy
	for _, inst := range busy {
		if !inst.Ready() || tried[inst] == notNow {
			continue
		}
		j := inst.headJob(c, tried[inst])
		if j == nil {
			continue
		}
		weight := 0.0
		if len(busy) > 1 {
			weight = inst.QueueOf(c).Weigh(j, e.queueScale(inst, c, 0))
		}
		if best == nil || weight < least || weight == least && j.Order < request.Order {
			best, least, request = inst, weight, j
		}
	}
	if e.feeds == 0 || c == Lowest {
		return best, false
	}
	limit := math.Inf(1)
	if best != nil {
		limit = best.urgencyKey(request)
	}
	for _, inst := range busy {
		if !inst.Ready() || tried[inst] == notNow {
			continue
		}
		if w, ok := inst.frames.DemandWork(e.shared.Now); ok && w.Key(0, 0) < limit {
			best, isFrame, limit = inst, true, w.Key(0, 0)
		}
	}
	return best, isFrame
}

// urgencyKey is the key in seconds by which a request is compared with frames, whatever the policy.
func (inst *Instance) urgencyKey(j *queue.Job) float64 {
	return inst.Cost.Seconds(j.Left()) - inst.Executor.aging*(inst.shared.Seconds()-j.Aged)
}

// headJob is the job of a class that is an instance's policy's choice, or if there are no pages for that, of those that need none.
func (inst *Instance) headJob(c Class, tried int) *queue.Job {
	if tried == noPages {
		return inst.QueueOf(c).FirstPlain(inst.shared.Seconds())
	}
	var blocked *queue.Job
	if j := inst.blocked[c]; j != nil {
		blocked = &j.Job
	}
	return inst.QueueOf(c).First(inst.shared.Seconds(), blocked)
}

// firstJob is headJob's, with what the job finds of the cache as it is now.
func (inst *Instance) firstJob(c Class, tried int) *Job {
	q, j := inst.QueueOf(c), inst.headJob(c, tried)
	if j != nil {
		q.Find(j)
	}
	return q.OwnerOf(j)
}

// nextUnblockedJob is the job of a class that the policy runs next in an instance among those for which there may be pages; nil if
// there is none.
func (inst *Instance) nextUnblockedJob(c Class) *Job {
	if inst.blocked[c] != nil {
		return inst.firstJob(c, noPages)
	}
	return inst.firstJob(c, 0)
}

// beginWith begins a pass with a waiting request, and those that are to share it, if that has its pages and there is
// room for the pass.
func (e *Executor) beginWith(j *Job) bool {
	inst := j.Instance
	if !inst.beginArea(j.Class) {
		return false
	}
	inst.TakeJob(j)
	if !inst.leasePages(j) {
		inst.pushJob(j)
		inst.Executor.endArea(inst)
		return false
	}
	p := newPass(j)
	p.fillPass()
	inst.Executor.runPass(p, false)
	return true
}

// startFrames begins a pass of waiting frames.
func (e *Executor) startFrames(frames []*Job, nested bool) bool {
	if len(frames) == 0 || !frames[0].Instance.beginArea(Live) {
		return false
	}
	p := newPass(frames[0])
	p.Items = append(p.Items, frames[1:]...)
	for _, j := range p.Items {
		p.Instance.TakeJob(j)
		p.Instance.leasePages(j)
	}
	e.runPass(p, nested)
	return true
}

// NestFrames begins a pass of frames inside the running one.
func (e *Executor) NestFrames(frames []*Job) {
	if e.startFrames(frames, true) {
		e.shared.Stats.Nested++
	}
}

// runPass sends a pass whose jobs have their leases.
func (e *Executor) runPass(p *Pass, nested bool) {
	e.shared.passes++
	p.ID = wire.PassID(e.shared.passes)
	p.Started = e.shared.Now
	inst := p.Instance
	run := &wire.Run{Pass: p.ID, Model: inst.Info.Name, Nested: nested, Lowest: p.class == Lowest, Saves: inst.Cache.TakeSaves(), Items: make([]wire.RunItem, len(p.Items))}
	p.Work = cost.Work{Passes: 1}
	generates := p.Items[0].Continues()
	for i, j := range p.Items {
		w := j.Size(j.CachedTokens())
		if !j.Continues() {
			w.Loads = float64(len(j.Lease.Loads))
			run.Loads = appendLoads(run.Loads, &j.Job)
		}
		p.Work.Add(w)
		run.Items[i] = wire.RunItem{Job: j.Submit.ID, Work: j.wireItem()}
		e.shared.beginJob(j)
	}
	switch {
	case nested:
		e.Nested = p
	case p.class == Lowest:
		e.Lowest = append(e.Lowest, p)
	default:
		e.Running = p
	}
	if !nested {
		if generates {
			inst.turned = p.ID
		}
		e.lines[p.class].passedOver = !generates && e.nextTurn(p.class) != nil
	}
	e.shared.Send(e.ID, run)
}

// resumeParked lets a paused pass go on.
func (e *Executor) resumeParked(i int) bool {
	if i < 0 {
		return false
	}
	p := e.Parked[i]
	e.Parked = slices.Delete(e.Parked, i, i+1)
	p.held += e.shared.Now - p.parkedAt
	p.Started = e.shared.Now
	e.Running = p
	e.shared.Send(e.ID, &wire.Resume{Pass: p.ID})
	return true
}

// Preempt asks a running pass to make way, if the policy wants that and a place for it is left.
func (e *Executor) Preempt() {
	if !e.mayPause() || e.Full {
		return
	}
	if inst, isFrame := e.bestInstance(Live, map[*Instance]int{}); inst != nil && !isFrame {
		if j := inst.nextUnblockedJob(Live); j != nil && e.Running.isOvertaken(j) {
			e.PausePass()
		}
	}
}

// mayPause says whether the running pass can be paused.
func (e *Executor) mayPause() bool {
	return e.Info.CanPause && !e.Running.pausing && len(e.Parked) < e.shared.MaxPaused
}

// PausePass asks the running pass to stand still at its next boundary, if it can.
func (e *Executor) PausePass() {
	if e.mayPause() {
		e.Running.pausing = true
		e.shared.Send(e.ID, &wire.Pause{Pass: e.Running.ID})
	}
}

// isOvertaken asks the policy whether a waiting job goes before what remains of a pass that has started.
func (p *Pass) isOvertaken(j *Job) bool {
	e := p.Instance.Executor
	rule, ok := e.shared.Policy.(queue.Preemptive)
	if !ok {
		return false
	}
	held := p.held
	if p != e.Running {
		held += e.shared.Now - p.parkedAt
	}
	left := e.secondsLeft(p)
	whole := e.SecondsSpent(p) + left
	margin := p.Instance.Cost.Seconds(cost.Work{Units: p.Instance.margin})
	needs := j.Instance.Cost.Seconds(j.Left()) + margin
	if j.Instance == p.Instance {
		// A pass that takes longer than the model says tells that one of the job may too.
		needs = needs * whole / p.Instance.Cost.Seconds(p.Work)
	}
	return rule.Overtakes(needs, left, held.Seconds(), whole)
}

// parkedBefore finds the paused pass that goes on before job j starts, -1 if there is none; j may be
// nil. A pass that may be held up no longer comes first, then the one with the least left.
func (e *Executor) parkedBefore(j *Job) int {
	best := -1
	for i, p := range e.Parked {
		switch {
		case j != nil && p.isOvertaken(j):
		case best < 0, e.secondsLeft(p) < e.secondsLeft(e.Parked[best]):
			best = i
		}
	}
	return best
}
