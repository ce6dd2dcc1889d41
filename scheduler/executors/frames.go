package executors

import (
	"cmp"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// FrameQueue is the frames of a model that are promised nothing: the ones in time wait, and share the device by
// residency.Frames.
type FrameQueue struct {
	cost   *cost.Model // of the model on the executor
	most   int         // frames in a pass
	jobs   []*Job      // the earliest deadline first
	stream residency.Stream
	began  bool
}

// newFrameQueue makes an empty Queue for passes of so many frames at most.
func newFrameQueue(m *cost.Model, most int) FrameQueue { return FrameQueue{cost: m, most: most} }

func byDeadline(a, b *Job) int {
	return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(a.Order, b.Order))
}

// insertFrame puts a frame in its place among others, the earliest deadline first.
func insertFrame(frames []*Job, j *Job) []*Job {
	i, _ := slices.BinarySearchFunc(frames, j, byDeadline)
	return slices.Insert(frames, i, j)
}

// removeFrame takes a frame out of others.
func removeFrame(frames []*Job, j *Job) []*Job {
	return slices.DeleteFunc(frames, func(o *Job) bool { return o == j })
}

// framesInOrder says that the earliest deadline is first.
func framesInOrder(frames []*Job) bool { return slices.IsSortedFunc(frames, byDeadline) }

// PushFrame adds a frame.
func (q *FrameQueue) PushFrame(j *Job, now time.Duration) {
	if !q.began {
		q.began = true
		q.stream = residency.NewStream(now.Seconds())
	}
	q.jobs = insertFrame(q.jobs, j)
}

// RemoveFrame takes a frame out.
func (q *FrameQueue) RemoveFrame(j *Job) { q.jobs = removeFrame(q.jobs, j) }

// AllFrames are the frames, the earliest deadline first.
func (q *FrameQueue) AllFrames() []*Job { return q.jobs }

// SecondsWaiting predicts the work that waits.
func (q *FrameQueue) SecondsWaiting() float64 {
	if len(q.jobs) == 0 {
		return 0
	}
	return q.cost.Seconds(frameWork(q.jobs))
}

// frameWork is the work of a pass of frames.
func frameWork(frames []*Job) cost.Work {
	w := cost.Work{Passes: 1}
	for _, j := range frames {
		w.Add(j.Size(j.CachedTokens()))
	}
	return w
}

// PickBatch is those of some frames of the model, the earliest deadline first, that are to share a pass which starts now: the
// ones that wait are spared a base cost by each that joins, as long as that is more than those in the pass lose, and none is
// late by it that would not be anyway.
func (q *FrameQueue) PickBatch(frames []*Job, now time.Duration) []*Job {
	n := min(1, len(frames))
	for n < min(len(frames), q.most) {
		behind := float64(len(frames) - n)
		if q.cost.Base*behind <= q.cost.Extra(frames[n].Size(0))*float64(n) {
			break
		}
		if due := frames[0].Deadline; q.batchEndsBy(frames[:n+1], now) > due && q.batchEndsBy(frames[:n], now) <= due {
			break
		}
		n++
	}
	return frames[:n]
}

// batchEndsBy is when a pass of frames that starts now is predicted to end.
func (q *FrameQueue) batchEndsBy(frames []*Job, now time.Duration) time.Duration {
	return now + secondsToDuration(q.cost.Seconds(frameWork(frames)))
}

// LatestStart is when a frame must start to be in time.
func (q *FrameQueue) LatestStart(j *Job) time.Duration {
	return j.Deadline - secondsToDuration(q.cost.Seconds(j.Left()))
}

// UpperCost is how long a pass of a frame takes at most.
func (q *FrameQueue) UpperCost(j *Job) time.Duration {
	return secondsToDuration(q.cost.Upper(j.Left()))
}

// NextBatch is the frames that share the model's next pass.
func (q *FrameQueue) NextBatch(now time.Duration) []*Job { return q.PickBatch(q.jobs, now) }

// DemandWork is what the frames ask of the device; ok is false if none waits.
func (q *FrameQueue) DemandWork(now time.Duration) (w residency.Frames, ok bool) {
	if len(q.jobs) == 0 {
		return w, false
	}
	next := q.NextBatch(now)
	return q.stream.Work(now.Seconds(), q.cost.Seconds(frameWork(next)), len(next)), true
}

// CountServed notes what became of a frame: that it was answered in time, or not.
func (q *FrameQueue) CountServed(now time.Duration, inTime bool) {
	if inTime {
		q.stream.Count(now.Seconds(), 1, 0)
	} else {
		q.stream.Count(now.Seconds(), 0, 1)
	}
}
