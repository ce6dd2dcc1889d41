package fleet

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/promise"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// frames are those of a lane that are promised nothing: the ones in time wait, and share the device by
// residency.Frames.
type frames struct {
	jobs   []*Job // the earliest deadline first
	stream residency.Stream
	began  bool
}

func byDeadline(a, b *Job) int {
	return cmp.Or(cmp.Compare(a.deadline, b.deadline), cmp.Compare(a.Order, b.Order))
}

// insert puts a frame in its place among others.
func insert(jobs []*Job, j *Job) []*Job {
	i, _ := slices.BinarySearchFunc(jobs, j, byDeadline)
	return slices.Insert(jobs, i, j)
}

func (s *frames) add(j *Job, now float64) {
	if !s.began {
		s.began = true
		s.stream = residency.NewStream(now)
	}
	s.jobs = insert(s.jobs, j)
}

// seconds predicts the work that waits.
func (s *frames) seconds(l *Lane) float64 {
	if len(s.jobs) == 0 {
		return 0
	}
	return l.Cost.Seconds(workOf(s.jobs))
}

// workOf is the work of a pass of frames.
func workOf(jobs []*Job) cost.Work {
	w := cost.Work{Passes: 1}
	for _, j := range jobs {
		w.Add(j.Size(j.CachedTokens()))
	}
	return w
}

// batch is how many of some frames, the earliest deadline first, are to share a pass that starts now: those that
// wait are spared a base cost by each that joins, as long as that is more than those in the pass lose, and none is
// late by it that would not be anyway.
func (l *Lane) batch(frames []*Job, now time.Duration) []*Job {
	n := min(1, len(frames))
	for n < min(len(frames), l.most) {
		behind := float64(len(frames) - n)
		if l.Cost.Base*behind <= l.Cost.Extra(frames[n].Size(0))*float64(n) {
			break
		}
		if l.ends(frames[:n+1], now) > frames[0].deadline && l.ends(frames[:n], now) <= frames[0].deadline {
			break
		}
		n++
	}
	return frames[:n]
}

// ends is when a pass of frames that starts now is predicted to end.
func (l *Lane) ends(frames []*Job, now time.Duration) time.Duration {
	return now + duration(l.Cost.Seconds(workOf(frames)))
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// work is what the frames of a lane ask of the device; a full window where it is not to run now.
func (l *Lane) frameWork(now time.Duration) (w residency.Frames, ok bool) {
	if len(l.frames.jobs) == 0 {
		return w, false
	}
	batch := l.batch(l.frames.jobs, now)
	return l.frames.stream.Work(now.Seconds(), l.Cost.Seconds(workOf(batch)), len(batch)), true
}

// Served notes what became of a frame that is promised nothing: that it was answered in time, or not.
func (f *Fleet) Served(j *Job, inTime bool) {
	if j.Lane == nil || !j.isFrame() || j.isPromised() {
		return
	}
	if inTime {
		j.Lane.frames.stream.Count(f.Seconds(), 1, 0)
	} else {
		j.Lane.frames.stream.Count(f.Seconds(), 0, 1)
	}
}

// latest is when a frame must start to be in time.
func (j *Job) latest() time.Duration {
	return j.deadline - duration(j.Lane.Cost.Seconds(j.Left()))
}

// promise puts a frame among those that are promised their deadlines.
func (e *Executor) promise(j *Job) { e.promised = insert(e.promised, j) }

// Older is the frame of the same stream that waits; nil if there is none.
func (f *Fleet) Older(j *Job) *Job {
	for _, e := range f.Executors {
		for _, other := range e.promised {
			if other.Frontend == j.Frontend && other.Submit.Stream == j.Submit.Stream && other != j {
				return other
			}
		}
	}
	return nil
}

// admit asks a lane's executor to promise a frame its deadline, and says why it does not. If the model is not there it is
// loaded for the frames to come.
func (f *Fleet) admit(j *Job, l *Lane) *engine.Error {
	seconds, deadline := l.Cost.Upper(j.Size(0).Alone()), j.Submit.Deadline.Seconds()
	r := l.Executor.ledger.Admit(f.Seconds(), j.stream(), promise.Frame{Model: l.Info.Name, Cost: seconds, Deadline: deadline, Priority: max(j.Priority, 0)}, l.Executor.block(l))
	switch others := l.Executor.Device.Loading() && !l.Comes(); {
	case r != nil:
		f.Stats.RefusedUtilisation++
		return comeBack(time.Second, "%v", r)
	case !l.Ready() && (others || !l.Cost.Known()):
		return comeBack(duration(l.Missing()), "model %q is not there yet, and how long that will take is not known", l.Info.Name)
	case l.Missing()+seconds > deadline:
		return comeBack(duration(l.Missing()), "model %q is not there yet: it takes %.1f s to load", l.Info.Name, l.Missing())
	}
	return nil
}

// comeBack is a refusal for now.
func comeBack(after time.Duration, format string, args ...any) *engine.Error {
	err := engine.Errorf(engine.CodeOverloaded, format, args...)
	err.RetryAfter = min(max(after, time.Second), time.Minute)
	return err
}

// stream names the stream of a frame: those of different frontends are different.
func (j *Job) stream() string { return j.Frontend.Peer.Name.Name + "/" + j.Submit.Stream }

// block is the longest time in seconds for which a frame of a lane may have to wait for a step of other work.
func (e *Executor) block(of *Lane) float64 {
	longest := 0.0
	for _, l := range e.Lanes {
		if !l.Pool.Asked {
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
func (f *Fleet) due(e *Executor) []*Job {
	i := slices.IndexFunc(e.promised, func(j *Job) bool { return j.Lane.Ready() })
	if i < 0 {
		return nil
	}
	l := e.promised[i].Lane
	var same []*Job
	for _, j := range e.promised[i:] {
		if j.Lane == l && j.Priority == e.promised[i].Priority { // what was admitted beside others' promises was so by its own length
			same = append(same, j)
		}
	}
	return l.batch(same, f.Now)
}

// Urgent is promised frames that are to interrupt the running pass; nil if there are none. Nested says that they can run
// inside it: they do so at once, as that costs the pass no more than if they came after it. Others have the pass paused,
// which costs memory, when they would be late if they waited for its end.
func (f *Fleet) Urgent(e *Executor) (frames []*Job, nested bool) {
	p := e.Running
	if p == nil || e.Nested != nil || len(e.promised) == 0 || p.Items[0].isPromised() {
		return nil, false
	}
	frames = f.due(e)
	if frames == nil || frames[0].Lane.nests() {
		return frames, frames != nil
	}
	if latest := e.latest(); f.Now < latest && f.Now+duration(e.left(p, f.Now)) <= latest {
		return nil, false
	}
	return frames, false
}

// latest is when promised frames must interrupt the running pass at the latest, so that all that wait, one after the
// other, are in time.
func (e *Executor) latest() time.Duration {
	at := time.Duration(math.MaxInt64)
	sum := e.Running.Lane.Info.Step
	for _, j := range e.promised {
		if l := j.Lane; l.Ready() {
			sum += duration(l.Cost.Upper(j.Left()))
			at = min(at, j.deadline-sum)
		}
	}
	return at
}
