package dispatch

import (
	"cmp"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/scheduler/cost"
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
func (l *Lane) batch(frames []*Job) []*Job {
	n := min(1, len(frames))
	for n < min(len(frames), l.most) {
		behind := float64(len(frames) - n)
		if l.Cost.Base*behind <= l.Cost.Extra(frames[n].Size(0))*float64(n) {
			break
		}
		if l.ends(frames[:n+1]) > frames[0].deadline && l.ends(frames[:n]) <= frames[0].deadline {
			break
		}
		n++
	}
	return frames[:n]
}

// ends is when a pass of frames that starts now is predicted to end.
func (l *Lane) ends(frames []*Job) time.Duration {
	return l.shared.Now + duration(l.Cost.Seconds(workOf(frames)))
}

func duration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// frameWork is what the frames of a lane ask of the device; a full window where it is not to run now.
func (l *Lane) frameWork() (w residency.Frames, ok bool) {
	if len(l.frames.jobs) == 0 {
		return w, false
	}
	batch := l.batch(l.frames.jobs)
	return l.frames.stream.Work(l.shared.Seconds(), l.Cost.Seconds(workOf(batch)), len(batch)), true
}

// Served notes what became of a frame that is promised nothing: that it was answered in time, or not.
func (j *Job) Served(inTime bool) {
	if j.Lane == nil || !j.IsFrame() || j.IsPromised() {
		return
	}
	now := j.Lane.shared.Seconds()
	if inTime {
		j.Lane.frames.stream.Count(now, 1, 0)
	} else {
		j.Lane.frames.stream.Count(now, 0, 1)
	}
}
