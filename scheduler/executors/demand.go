package executors

import (
	"math"

	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// modelDemands lists what is asked of the models on an executor: those for which jobs wait, those that are there and expect
// some, and those that are to be kept and are not there.
func (e *Executor) modelDemands() (demands []residency.Demand) {
	now := e.shared.Seconds()
	if len(e.lines[Live].busy) == 0 && len(e.lines[Lowest].busy) > 0 && len(e.awaitedInstances(now)) == 0 && !e.lacksKeepers() {
		return e.lowestDemands()
	}
	mixed := e.feeds > 0
	seconds := mixed || queue.InSeconds(e.shared.Policy)
	for _, inst := range e.lines[Live].busy {
		demands = append(demands, residency.Demand{Model: inst.Number(), Work: demandOf{inst, mixed}, Kept: inst.Promised(e.shared.Now)})
	}
	for _, m := range e.Loader.Loaded() {
		inst := e.Instance(m.Info.Name)
		switch {
		case inst.waiting > 0:
		case inst.Promised(e.shared.Now):
			demands = append(demands, residency.Demand{Model: inst.Number(), Kept: true})
		case seconds: // else what was used longest ago goes first
			service := inst.Cost.Seconds(inst.Group.typicalWork())
			demands = append(demands, residency.Demand{Model: inst.Number(), Idle: true, Work: residency.Requests{Service: service, Next: inst.NextJob(e.shared.Now)}})
		}
	}
	for _, m := range e.Loader.Keepers() {
		if inst := e.Instance(m.Info.Name); !inst.Ready() && inst.waiting == 0 {
			demands = append(demands, residency.Demand{Model: inst.Number(), Kept: true})
		}
	}
	for _, inst := range e.awaitedInstances(now) {
		if inst.waiting == 0 && !inst.Kept() {
			demands = append(demands, residency.Demand{Model: inst.Number(), Kept: true})
		}
	}
	return demands
}

// awaitedInstances lists the instances that streams with promised deadlines need and that are not there.
func (e *Executor) awaitedInstances(now float64) (instances []*Instance) {
	for _, name := range e.Ledger.Models(now) {
		if inst := e.Instance(name); inst != nil && !inst.Ready() && !inst.Useless() {
			instances = append(instances, inst)
		}
	}
	return instances
}

// demandOf is what is asked of an instance in which jobs wait.
type demandOf struct {
	instance *Instance
	mixed    bool // frames wait beside requests: all are compared in seconds, whatever the policy
}

// Key implements residency.Work.
func (a demandOf) Key(load, back float64) float64 {
	inst := a.instance
	key := math.Inf(1)
	s := inst.Executor.queueScale(inst, Live, load+back)
	j, turn := inst.headJob(Live, 0), inst.Queue.Turn()
	switch {
	case a.mixed:
		for _, j := range []*queue.Job{j, turn} {
			if j != nil {
				key = min(key, inst.urgencyKey(j)+s.Load)
			}
		}
	case j != nil:
		key = inst.Queue.Weigh(j, s)
	}
	if turn != nil && !a.mixed {
		key = min(key, inst.Queue.WeighTurn(s))
	}
	if w, ok := inst.frames.DemandWork(inst.shared.Now); ok {
		key = min(key, w.Key(load, back))
	}
	return key
}
