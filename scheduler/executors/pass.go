package executors

import (
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine/wire"
	"github.com/prefillonly/prefillonly/scheduler/cost"
)

// Pass is a Run that has not been answered yet.
type Pass struct {
	ID       wire.PassID
	Instance *Instance
	Items    []*Job
	class    Class
	Work     cost.Work     // of the whole pass
	Ran      time.Duration // before it last started
	Started  time.Duration // when it last started
	whole    float64       // seconds that it takes in all, by the share done when it was paused last; 0: not told
	pausing  bool          // a Pause is on its way
	parkedAt time.Duration // when it was last paused
	held     time.Duration // paused in all before it last started, or since then for passes nested in it
}

// newPass makes a pass that begins with a job.
func newPass(first *Job) *Pass {
	return &Pass{Instance: first.Instance, Items: []*Job{first}, class: first.Class}
}

// SecondsSpent is how long a pass has run so far, in seconds.
func (e *Executor) SecondsSpent(p *Pass) float64 {
	ran := p.Ran
	switch {
	case p == e.Running && e.Nested != nil:
		ran += e.Nested.Started - p.Started
	case p == e.Running || p == e.Nested || p.class == Lowest:
		ran += e.shared.Now - p.Started
	}
	return ran.Seconds()
}

// predictedSeconds is the seconds that a pass takes in all.
func (p *Pass) predictedSeconds() float64 {
	if p.whole > 0 {
		return p.whole
	}
	return p.Instance.Cost.Seconds(p.Work)
}

// secondsLeft predicts the seconds that are left of a pass, running or not. One that has overrun its
// prediction is taken to need as long again as it has overrun: of that the prediction has shown that it
// knows nothing, and where all lengths are as likely by order of magnitude (a Pareto law of index 1),
// half of all end sooner.
func (e *Executor) secondsLeft(p *Pass) float64 {
	return math.Abs(p.predictedSeconds() - e.SecondsSpent(p))
}

// PassPaused notes that the running pass stands still, with such a share of it done; 0 if that is not told.
func (e *Executor) PassPaused(share float64) {
	p, now := e.Running, e.shared.Now
	p.Ran += now - p.Started
	if share > 0 {
		p.whole = p.Ran.Seconds() / share
	}
	p.parkedAt, p.pausing = now, false
	e.Running, e.Nested = e.Nested, nil
	e.Parked = append(e.Parked, p)
}

// Pausing says that a Pause of the pass is on its way.
func (p *Pass) Pausing() bool { return p.pausing }

// PreparePass notes that the executor has found that a running or nested pass cannot begin yet: it is free for others.
func (e *Executor) PreparePass(p *Pass) {
	e.removePass(p)
	p.pausing = false
	e.Preparing = append(e.Preparing, p)
}

// EndPass takes a running, nested, paused or preparing pass off the executor and gives back what it held of memory. A pass
// that was nested in it, and has come too late for that, is the running one.
func (e *Executor) EndPass(p *Pass) {
	e.removePass(p)
	e.Full, e.noRoom = false, false
	e.endArea(p.Instance)
}

// removePass takes a pass from where it is.
func (e *Executor) removePass(p *Pass) {
	switch p {
	case e.Running:
		e.Running, e.Nested = e.Nested, nil
	case e.Nested:
		e.Nested = nil
		if outer := e.Running; outer != nil {
			took := e.shared.Now - p.Started
			outer.Started += took
			outer.held += took
		}
	default:
		isIt := func(o *Pass) bool { return o == p }
		e.Parked, e.Preparing, e.Lowest = slices.DeleteFunc(e.Parked, isIt), slices.DeleteFunc(e.Preparing, isIt), slices.DeleteFunc(e.Lowest, isIt)
	}
}

// FindPass is the pass of an id that runs, by itself, in another or beside it, or prepares; nil if there is none.
func (e *Executor) FindPass(id wire.PassID) *Pass {
	for _, p := range slices.Concat([]*Pass{e.Running, e.Nested}, e.Preparing, e.Lowest) {
		if p != nil && p.ID == id {
			return p
		}
	}
	return nil
}

// Passes lists the running pass, the one nested in it, the paused, the preparing and the lowest ones.
func (e *Executor) Passes() []*Pass {
	all := slices.Concat([]*Pass{e.Running, e.Nested}, e.Parked, e.Preparing, e.Lowest)
	return slices.DeleteFunc(all, func(p *Pass) bool { return p == nil })
}

// passesUpTo lists the passes that run for jobs of a class.
func (e *Executor) passesUpTo(c Class) []*Pass {
	switch {
	case c == Lowest:
		return e.Lowest
	case e.Running != nil:
		return []*Pass{e.Running}
	}
	return nil
}

// RunsClass says that a pass runs for jobs of a class.
func (e *Executor) RunsClass(c Class) bool { return len(e.passesUpTo(c)) > 0 }

// AbortPass has an executor drop a pass. It handles the Abort before any later Run, so that the pages can be given away at
// once.
func (e *Executor) AbortPass(p *Pass) {
	e.shared.Send(e.ID, &wire.Abort{Pass: p.ID})
	e.EndPass(p)
}

// RequeueItems returns the jobs of a pass that is not on its executor any more to their instance. Jobs that generate keep their
// pages, in which is what they have computed.
func (p *Pass) RequeueItems() {
	for _, j := range p.Items {
		if j.Cancelled {
			p.Instance.shared.DropJob(j)
			continue
		}
		if !j.Continues() {
			j.ReleasePages()
		}
		p.Instance.Enqueue(j)
	}
}

// PassRefused says that a pass found no room beside others, and puts its jobs back. Until a pass has ended, and left its
// room, none of its class begins there.
func (e *Executor) PassRefused(p *Pass) {
	if p.class == Lowest {
		e.noRoom = true
	} else {
		e.Full = true
	}
	p.RequeueItems()
}

// EndedAfter notes that the pass has ended and, if it went well, that it took so long by its executor's clock; 0 if that does
// not tell. It returns how long it ran, by ours.
func (p *Pass) EndedAfter(took time.Duration, well bool) (ran time.Duration) {
	inst, now := p.Instance, p.Instance.shared.Now
	ran = p.Ran + now - p.Started
	p.countPass()
	if !well {
		return ran
	}
	if took <= 0 && p.class == Live {
		took = ran
	}
	if took > 0 {
		inst.Group.Stats.PassTime += took
		inst.Cost.Observe(p.Work, took)
		inst.told = now
	}
	if p.class == Live { // nobody waits for others to end
		inst.longest = max(took.Seconds(), fading*inst.longest)
	}
	if inst.Info.Cost.Unit <= 0 {
		inst.Executor.SetAging()
	}
	return ran
}

// fading is what each pass leaves of the longest one's length.
const fading = 0.98

// doubting is what a refusal leaves of the longest pass's length: twenty leave an eighth.
const doubting = 0.9

// DoubtCost notes that a promise was refused in an instance in which no pass tells any more how long they are. One odd pass, during which
// the machine stood still, would otherwise have its streams refused for ever.
func (inst *Instance) DoubtCost() {
	if inst.shared.Now-inst.told > time.Second {
		inst.Cost.Doubt()
		inst.longest *= doubting
	}
}

// countPass counts a pass that has ended.
func (p *Pass) countPass() {
	s := &p.Instance.Group.Stats
	if s.PassUnits == nil {
		s.PassUnits = make([]uint64, len(wire.PassUnitBounds)+1)
	}
	at, _ := slices.BinarySearch(wire.PassUnitBounds[:], p.Work.Units)
	s.PassUnits[at]++
	s.Passes++
	s.ComputedUnits += uint64(p.Work.Units)
}
