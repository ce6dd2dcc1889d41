package executors

import (
	"math"
	"slices"
	"time"
)

// HasPromised says that frames wait that are promised their deadlines.
func (e *Executor) HasPromised() bool { return len(e.promised) > 0 }

// OlderFrame is the frame of a promised one's stream that waits beside it; nil if there is none.
func (e *Executor) OlderFrame(j *Job) *Job {
	for _, other := range e.promised {
		if other.Frontend == j.Frontend && other.Submit.Stream == j.Submit.Stream && other != j {
			return other
		}
	}
	return nil
}

// CountServed notes what became of a frame that is promised nothing: that it was answered in time, or not.
func (j *Job) CountServed(inTime bool) {
	if j.Instance != nil && j.IsFrame() && !j.IsPromised() {
		j.Instance.frames.CountServed(j.Instance.shared.Now, inTime)
	}
}

// LongestBlock is the longest time in seconds for which a frame of an instance may have to wait for a step of other work.
func (e *Executor) LongestBlock(of *Instance) float64 {
	longest := 0.0
	for _, inst := range e.Instances {
		if !inst.Group.Asked {
			continue
		}
		switch {
		case !e.Info.Nests || !of.canNest():
			longest = max(longest, inst.longest)
		case inst.Info.Step > 0:
			longest = max(longest, inst.Info.Step.Seconds())
		default:
			longest = max(longest, inst.longest)
		}
	}
	return longest
}

// canNest says that a pass of the instance may run inside one of another: it needs no work memory that others use.
func (inst *Instance) canNest() bool { return inst.Executor.Info.Nests && inst.Info.Tensors != nil }

// dueFrames is the promised frames that run next, the earliest deadline and what shares a pass with it; nil if none
// whose model is on the device waits.
func (e *Executor) dueFrames() []*Job {
	i := slices.IndexFunc(e.promised, func(j *Job) bool { return j.Instance.Ready() })
	if i < 0 {
		return nil
	}
	inst := e.promised[i].Instance
	var same []*Job
	for _, j := range e.promised[i:] {
		if j.Instance == inst && j.Priority == e.promised[i].Priority { // what was admitted beside others' promises was so by its own length
			same = append(same, j)
		}
	}
	return inst.frames.PickBatch(same, e.shared.Now)
}

// UrgentFrames is promised frames that are to interrupt the running pass; nil if there are none. Nested says that they can run
// inside it: they do so at once, as that costs the pass no more than if they came after it. Others have the pass paused,
// which costs memory, when they would be late if they waited for its end.
func (e *Executor) UrgentFrames() (frames []*Job, nested bool) {
	p := e.Running
	if p == nil || e.Nested != nil || len(e.promised) == 0 || p.Items[0].IsPromised() {
		return nil, false
	}
	frames = e.dueFrames()
	if frames == nil || frames[0].Instance.canNest() {
		return frames, frames != nil
	}
	if latest := e.latestInterrupt(); e.shared.Now < latest && e.shared.Now+secondsToDuration(e.secondsLeft(p)) <= latest {
		return nil, false
	}
	return frames, false
}

// InterruptAt is when promised frames must interrupt the running pass at the latest; false if they need not, or must at once.
func (e *Executor) InterruptAt() (at time.Duration, ok bool) {
	if e.Running == nil || e.Nested != nil || len(e.promised) == 0 {
		return 0, false
	}
	at = e.latestInterrupt()
	return at, at > e.shared.Now && at < math.MaxInt64
}

// latestInterrupt is when promised frames must interrupt the running pass at the latest, so that all that wait, one after the
// other, are in time.
func (e *Executor) latestInterrupt() time.Duration {
	at := time.Duration(math.MaxInt64)
	sum := e.Running.Instance.Info.Step
	for _, j := range e.promised {
		if inst := j.Instance; inst.Ready() {
			sum += inst.frames.UpperCost(j)
			at = min(at, j.Deadline-sum)
		}
	}
	return at
}

func secondsToDuration(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second))
}
