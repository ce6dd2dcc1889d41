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
	for _, l := range e.lines[Live].busy {
		demands = append(demands, residency.Demand{Model: l.Number(), Work: demandOf{l, mixed}, Kept: l.Promised(e.shared.Now)})
	}
	for _, m := range e.Loader.Loaded() {
		l := e.Instance(m.Info.Name)
		switch {
		case l.waiting > 0:
		case l.Promised(e.shared.Now):
			demands = append(demands, residency.Demand{Model: l.Number(), Kept: true})
		case seconds: // else what was used longest ago goes first
			service := l.Cost.Seconds(l.Group.typicalWork())
			demands = append(demands, residency.Demand{Model: l.Number(), Idle: true, Work: residency.Requests{Service: service, Next: l.NextJob(e.shared.Now)}})
		}
	}
	for _, m := range e.Loader.Keepers() {
		if l := e.Instance(m.Info.Name); !l.Ready() && l.waiting == 0 {
			demands = append(demands, residency.Demand{Model: l.Number(), Kept: true})
		}
	}
	for _, l := range e.awaitedInstances(now) {
		if l.waiting == 0 && !l.Kept() {
			demands = append(demands, residency.Demand{Model: l.Number(), Kept: true})
		}
	}
	return demands
}

// awaitedInstances lists the instances that streams with promised deadlines need and that are not there.
func (e *Executor) awaitedInstances(now float64) (instances []*Instance) {
	for _, name := range e.Ledger.Models(now) {
		if l := e.Instance(name); l != nil && !l.Ready() && !l.Useless() {
			instances = append(instances, l)
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
	l := a.instance
	key := math.Inf(1)
	s := l.Executor.queueScale(l, Live, load+back)
	j, turn := l.headJob(Live, 0), jobOf(l.Queue.Turn())
	switch {
	case a.mixed:
		for _, j := range []*Job{j, turn} {
			if j != nil {
				key = min(key, l.urgencyKey(j)+s.Load)
			}
		}
	case j != nil:
		key = l.Queue.Weigh(&j.Job, s)
	}
	if turn != nil && !a.mixed {
		key = min(key, l.Queue.WeighTurn(s))
	}
	if w, ok := l.frames.DemandWork(l.shared.Now); ok {
		key = min(key, w.Key(load, back))
	}
	return key
}
