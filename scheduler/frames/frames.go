// Package frames holds the frames of streams that wait for a model on an executor: which of them share a pass, when one must
// start to be in time, and what those that are promised nothing ask of the device beside other work.
package frames

import (
	"cmp"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/cost"
	"github.com/prefillonly/prefillonly/scheduler/queue"
	"github.com/prefillonly/prefillonly/scheduler/residency"
)

// Queue is the frames of a model that are promised nothing: the ones in time wait, and share the device by
// residency.Frames.
type Queue struct {
	cost   *cost.Model  // of the model on the executor
	most   int          // frames in a pass
	jobs   []*queue.Job // the earliest deadline first
	stream residency.Stream
	began  bool
}

// New makes an empty Queue for passes of so many frames at most.
func New(m *cost.Model, most int) Queue { return Queue{cost: m, most: most} }

func byDeadline(a, b *queue.Job) int {
	return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(a.Order, b.Order))
}

// Insert puts a frame in its place among others, the earliest deadline first.
func Insert(frames []*queue.Job, j *queue.Job) []*queue.Job {
	i, _ := slices.BinarySearchFunc(frames, j, byDeadline)
	return slices.Insert(frames, i, j)
}

// Remove takes a frame out of others.
func Remove(frames []*queue.Job, j *queue.Job) []*queue.Job {
	return slices.DeleteFunc(frames, func(o *queue.Job) bool { return o == j })
}

// InOrder says that the earliest deadline is first.
func InOrder(frames []*queue.Job) bool { return slices.IsSortedFunc(frames, byDeadline) }

// Push adds a frame.
func (q *Queue) Push(j *queue.Job, now time.Duration) {
	if !q.began {
		q.began = true
		q.stream = residency.NewStream(now.Seconds())
	}
	q.jobs = Insert(q.jobs, j)
}

// Remove takes a frame out.
func (q *Queue) Remove(j *queue.Job) { q.jobs = Remove(q.jobs, j) }

// All are the frames, the earliest deadline first.
func (q *Queue) All() []*queue.Job { return q.jobs }

// Seconds predicts the work that waits.
func (q *Queue) Seconds() float64 {
	if len(q.jobs) == 0 {
		return 0
	}
	return q.cost.Seconds(workOf(q.jobs))
}

// workOf is the work of a pass of frames.
func workOf(frames []*queue.Job) cost.Work {
	w := cost.Work{Passes: 1}
	for _, j := range frames {
		w.Add(j.Size(j.CachedTokens()))
	}
	return w
}

// Batch is those of some frames of the model, the earliest deadline first, that are to share a pass which starts now: the
// ones that wait are spared a base cost by each that joins, as long as that is more than those in the pass lose, and none is
// late by it that would not be anyway.
func (q *Queue) Batch(frames []*queue.Job, now time.Duration) []*queue.Job {
	n := min(1, len(frames))
	for n < min(len(frames), q.most) {
		behind := float64(len(frames) - n)
		if q.cost.Base*behind <= q.cost.Extra(frames[n].Size(0))*float64(n) {
			break
		}
		if due := frames[0].Deadline; q.ends(frames[:n+1], now) > due && q.ends(frames[:n], now) <= due {
			break
		}
		n++
	}
	return frames[:n]
}

// ends is when a pass of frames that starts now is predicted to end.
func (q *Queue) ends(frames []*queue.Job, now time.Duration) time.Duration {
	return now + seconds(q.cost.Seconds(workOf(frames)))
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Latest is when a frame must start to be in time.
func (q *Queue) Latest(j *queue.Job) time.Duration {
	return j.Deadline - seconds(q.cost.Seconds(j.Left()))
}

// Upper is how long a pass of a frame takes at most.
func (q *Queue) Upper(j *queue.Job) time.Duration { return seconds(q.cost.Upper(j.Left())) }

// Next is the frames that share the model's next pass.
func (q *Queue) Next(now time.Duration) []*queue.Job { return q.Batch(q.jobs, now) }

// Work is what the frames ask of the device; ok is false if none waits.
func (q *Queue) Work(now time.Duration) (w residency.Frames, ok bool) {
	if len(q.jobs) == 0 {
		return w, false
	}
	next := q.Next(now)
	return q.stream.Work(now.Seconds(), q.cost.Seconds(workOf(next)), len(next)), true
}

// Count notes what became of a frame: that it was answered in time, or not.
func (q *Queue) Count(now time.Duration, inTime bool) {
	if inTime {
		q.stream.Count(now.Seconds(), 1, 0)
	} else {
		q.stream.Count(now.Seconds(), 0, 1)
	}
}
