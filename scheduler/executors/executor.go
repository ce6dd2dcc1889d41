package executors

import (
	"slices"

	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// Executor is a peer that runs passes, with what is known of it. Its Name and Info are its Device's.
type Executor struct {
	*residency.Loader
	ID        PeerID
	Salt      uint64      // of its Name, by which users are spread over executors
	Settled   bool        // it has answered a Welcome; before it loads nothing
	Instances []*Instance // in the order of Info.Models
	Running   *Pass       // nil while idle
	Nested    *Pass       // in the running one
	Parked    []*Pass     // paused, oldest first
	Preparing []*Pass     // that could not begin, until what they need is made beside the device
	Lowest    []*Pass     // of engine.Lowest, in the order in which they are run
	Full      bool        // a pass did not fit beside the paused ones, and none has ended since; see Refused

	shared   *Shared
	byName   map[string]*Instance // Instances
	lines    [Classes]line
	noRoom   bool    // a lowest pass was dropped for want of room, and no pass has ended since
	aging    float64 // seconds of work that a second of waiting outweighs
	feeds    int     // frames that wait and are promised nothing
	promised []*Job  // frames that wait and are promised their deadlines, the earliest first
}

// line is the jobs of a class that wait for an executor.
type line struct {
	busy  []*Instance // those in which they wait
	turns int         // of them, to generate

	// passedOver says that the pass started last began with a job of the policy's choice and left some that
	// generate behind: the next one begins with those. So where both kinds wait, of two passes that start one
	// after the other at least one begins with the policy's choice, and at least one has a job that generates.
	passedOver bool
}

// NewExecutor makes an executor without instances.
func (s *Shared) NewExecutor(id PeerID, name string, aside bool) *Executor {
	return &Executor{Loader: residency.NewLoader(name, aside), ID: id, shared: s}
}

// Instance is the instance of a model; nil if the executor has none.
func (e *Executor) Instance(model string) *Instance {
	return e.byName[model]
}

// Load predicts the seconds of work that an executor has to do before a job of a class that comes now.
func (e *Executor) Load(c Class) float64 {
	sum := 0.0
	for _, inst := range e.lines[Lowest].busy {
		if c == Lowest {
			sum += inst.Cost.Seconds(inst.Lowest.Predicted)
		}
	}
	for _, inst := range e.lines[Live].busy {
		sum += inst.Cost.Seconds(inst.Queue.Predicted) + inst.frames.SecondsWaiting()
	}
	for _, j := range e.promised {
		sum += j.Instance.Cost.Seconds(j.Left())
	}
	for _, p := range e.Passes() {
		if p.class <= c {
			sum += e.secondsLeft(p)
		}
	}
	return sum
}

// Busy lists the instances in which jobs wait.
func (e *Executor) Busy() []*Instance {
	list := slices.Clone(e.lines[Live].busy)
	for _, inst := range e.lines[Lowest].busy {
		if !slices.Contains(list, inst) {
			list = append(list, inst)
		}
	}
	return list
}

// Idle says that nothing waits for the executor, nor stands still there, but for lowest jobs.
func (e *Executor) Idle() bool { return len(e.lines[Live].busy) == 0 && len(e.Parked) == 0 }

// HasLowest says that lowest jobs wait for the executor, or are in passes there.
func (e *Executor) HasLowest() bool { return len(e.lines[Lowest].busy)+len(e.Lowest) > 0 }

// queueScale is by what jobs of an instance are compared with those of others, when so many seconds are left to load it that
// each of them pays its part of.
func (e *Executor) queueScale(inst *Instance, c Class, load float64) queue.Scale {
	waiting := inst.waiting
	if c == Lowest {
		waiting = inst.Lowest.Len()
	}
	return queue.Scale{Now: e.shared.Seconds(), Rate: inst.Cost.Rate(), Load: load / float64(max(waiting, 1)), Aging: e.aging}
}

// SetAging finds how jobs of different instances age: for all alike, or one instance that is overloaded would starve the
// others. Of the instances' own rates it is the greatest, but no more than is good for an order that loads models.
func (e *Executor) SetAging() {
	fairness := e.shared.Fairness
	e.aging = 0
	for _, inst := range e.Instances {
		if inst.Info.Tokens != nil {
			e.aging = max(e.aging, min(fairness*inst.Cost.Rate(), residency.Aging))
		}
	}
	if e.aging == 0 {
		for _, inst := range e.Instances {
			e.aging = max(e.aging, min(fairness*inst.Cost.Rate(), residency.Aging))
		}
	}
}

// countWaiting notes that so many jobs more, or less, of a class wait in an instance.
func (inst *Instance) countWaiting(c Class, jobs int) {
	s, g, line := inst.shared, inst.Group, &inst.Executor.lines[c]
	if c == Lowest {
		s.LowestWaiting += jobs
		if n := inst.Lowest.Len(); jobs > 0 && n == jobs {
			line.busy = append(line.busy, inst)
		} else if n == 0 {
			line.busy = slices.DeleteFunc(line.busy, func(o *Instance) bool { return o == inst })
			inst.IdleFrom(s.Now)
		}
		return
	}
	before, waited := inst.waiting, g.Waiting
	inst.waiting += jobs
	g.Waiting += jobs
	switch {
	case before == 0:
		line.busy = append(line.busy, inst)
	case inst.waiting == 0:
		line.busy = slices.Delete(line.busy, slices.Index(line.busy, inst), slices.Index(line.busy, inst)+1)
		inst.IdleFrom(s.Now)
	}
	switch {
	case waited == 0:
		s.Waiting = append(s.Waiting, g)
	case g.Waiting == 0:
		s.Waiting = slices.DeleteFunc(s.Waiting, func(o *Group) bool { return o == g })
	}
}
