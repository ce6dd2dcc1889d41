package executors

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// lowestAhead is how many passes of lowest jobs an executor has, so that it need not wait for the next one.
const lowestAhead = 2

// BeginLowest gives an executor passes of lowest jobs, beside whatever runs there: it steps them when it has no other
// to step. None is begun while others wait for room.
func (e *Executor) BeginLowest() {
	for len(e.Lowest) < lowestAhead && len(e.lines[Lowest].busy) > 0 && e.leavesToLowest() {
		j := e.nextTurn(Lowest)
		if j != nil && e.lines[Lowest].passedOver && e.beginWith(j) {
			continue
		}
		if e.beginByChoice(Lowest) {
			continue
		}
		if j = e.nextTurn(Lowest); j == nil || !e.beginWith(j) {
			return
		}
	}
}

// leavesToLowest says that other jobs leave an executor to lowest ones: none of its passes is in want of room, none of their
// models is to be loaded, and no pass that it has is the last one that some of its jobs may be in.
func (e *Executor) leavesToLowest() bool {
	return !e.Full && !e.noRoom && len(e.Parked) == 0 && !slices.ContainsFunc(e.lines[Live].busy, isAbsent) &&
		!e.lacksKeepers() && len(e.awaitedInstances(e.shared.Seconds())) == 0
}

func isAbsent(inst *Instance) bool { return !inst.Ready() }

// lowestDemands is asks when none but lowest jobs wait for what is not there. What others have used lately stays.
func (e *Executor) lowestDemands() (demands []residency.Demand) {
	for _, inst := range e.Instances {
		kept := inst.Ready() && len(inst.Info.Weights) > 0 && (inst.waiting > 0 || inst.InUse(e.shared.Now)) || inst.Promised(e.shared.Now)
		if kept || inst.Lowest.Len() > 0 {
			demands = append(demands, residency.Demand{Model: inst.Number(), Kept: kept, Work: lowestDemandOf{inst}})
		}
	}
	return demands
}

// lowestDemandOf is what lowest jobs ask of an instance.
type lowestDemandOf struct {
	instance *Instance
}

// Key implements residency.Work.
func (a lowestDemandOf) Key(load, back float64) float64 {
	inst, q, key := a.instance, a.instance.Lowest, math.MaxFloat64
	s := inst.Executor.queueScale(inst, Lowest, load+back)
	if j := inst.headJob(Lowest, 0); j != nil {
		key = q.Weigh(j, s)
	}
	if q.Generating() > 0 {
		key = min(key, q.WeighTurn(s))
	}
	return key
}

// abortLowest drops the passes of lowest jobs that an executor has, so that others find room; it says whether there were any.
func (e *Executor) abortLowest(which func(*Pass) bool) bool {
	some := false
	for _, p := range slices.Clone(e.Lowest) {
		if which(p) {
			some = true
			e.AbortPass(p)
			p.RequeueItems()
		}
	}
	return some
}

func anyPass(*Pass) bool { return true }

// abortOneLowest gives an instance pages that lowest jobs hold while they wait to generate, or in passes; it says whether there were
// any. What they had computed is computed again.
func (inst *Instance) abortOneLowest() bool {
	for j := range inst.Lowest.Owners() {
		if j.Lease != nil {
			inst.TakeJob(j)
			j.ReleasePages()
			inst.pushJob(j)
			return true
		}
	}
	return inst.Executor.abortLowest(func(p *Pass) bool { return p.Instance == inst })
}

// IsLowest says that the pass is of lowest jobs.
func (p *Pass) IsLowest() bool { return p.class == Lowest }
