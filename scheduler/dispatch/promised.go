package dispatch

import (
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/queue"
)

// HasPromised says that frames wait that are promised their deadlines.
func (e *Executor) HasPromised() bool { return len(e.promised) > 0 }

// Older is the frame of a promised one's stream that waits beside it; nil if there is none.
func (e *Executor) Older(j *Job) *Job {
	for _, q := range e.promised {
		if other := of(q); other.Frontend == j.Frontend && other.Submit.Stream == j.Submit.Stream && other != j {
			return other
		}
	}
	return nil
}

// Served notes what became of a frame that is promised nothing: that it was answered in time, or not.
func (j *Job) Served(inTime bool) {
	if j.Lane != nil && j.IsFrame() && !j.IsPromised() {
		j.Lane.frames.Count(j.Lane.shared.Now, inTime)
	}
}

// Block is the longest time in seconds for which a frame of a lane may have to wait for a step of other work.
func (e *Executor) Block(of *Lane) float64 {
	longest := 0.0
	for _, l := range e.Lanes {
		if !l.Group.Asked {
			continue
		}
		switch {
		case !e.Info.Nests || !of.nests():
			longest = max(longest, l.longest)
		case l.Info.Step > 0:
			longest = max(longest, l.Info.Step.Seconds())
		default:
			longest = max(longest, l.longest)
		}
	}
	return longest
}

// nests says that a pass of the lane may run inside one of another: it needs no work memory that others use.
func (l *Lane) nests() bool { return l.Executor.Info.Nests && l.Info.Tensors != nil }

// due is the promised frames that run next, the earliest deadline and what shares a pass with it; nil if none
// whose model is on the device waits.
func (e *Executor) due() []*queue.Job {
	i := slices.IndexFunc(e.promised, func(q *queue.Job) bool { return of(q).Lane.Ready() })
	if i < 0 {
		return nil
	}
	l := of(e.promised[i]).Lane
	var same []*queue.Job
	for _, j := range e.promised[i:] {
		if of(j).Lane == l && j.Priority == e.promised[i].Priority { // what was admitted beside others' promises was so by its own length
			same = append(same, j)
		}
	}
	return l.frames.Batch(same, e.shared.Now)
}

// Urgent is promised frames that are to interrupt the running pass; nil if there are none. Nested says that they can run
// inside it: they do so at once, as that costs the pass no more than if they came after it. Others have the pass paused,
// which costs memory, when they would be late if they waited for its end.
func (e *Executor) Urgent() (frames []*queue.Job, nested bool) {
	p := e.Running
	if p == nil || e.Nested != nil || len(e.promised) == 0 || p.Items[0].IsPromised() {
		return nil, false
	}
	frames = e.due()
	if frames == nil || of(frames[0]).Lane.nests() {
		return frames, frames != nil
	}
	if latest := e.latest(); e.shared.Now < latest && e.shared.Now+duration(e.left(p)) <= latest {
		return nil, false
	}
	return frames, false
}

// Interrupts is when promised frames must interrupt the running pass at the latest; false if they need not, or must at once.
func (e *Executor) Interrupts() (at time.Duration, ok bool) {
	if e.Running == nil || e.Nested != nil || len(e.promised) == 0 {
		return 0, false
	}
	at = e.latest()
	return at, at > e.shared.Now && at < math.MaxInt64
}

// latest is when promised frames must interrupt the running pass at the latest, so that all that wait, one after the
// other, are in time.
func (e *Executor) latest() time.Duration {
	at := time.Duration(math.MaxInt64)
	sum := e.Running.Lane.Info.Step
	for _, j := range e.promised {
		if l := of(j).Lane; l.Ready() {
			sum += l.frames.Upper(j)
			at = min(at, j.Deadline-sum)
		}
	}
	return at
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
