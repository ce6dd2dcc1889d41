package executor

import (
	"math"
	"time"
)

// longest is a bound on the steps of a model's passes, of late: of a thousand steps one may be longer. It bounds steps
// for promises of deadlines, so it is no mean; but a machine that stands still now and then is not refused for it,
// which is what promise.Spare is for. Of fewer than a thousand steps it is the longest.
type longest struct {
	since       time.Time // of the current window
	now, before histogram
}

const (
	window = 5 * time.Minute
	rare   = 1000 // of so many steps one may be longer
)

// addStep takes note of a step. What was before is forgotten after one or two windows in which the model is used.
func (l *longest) addStep(step time.Duration, at time.Time) {
	if at.Sub(l.since) > window {
		l.since, l.before, l.now = at, l.now, histogram{}
	}
	l.now.addDuration(step)
}

func (l *longest) stepBound() time.Duration {
	both := l.now
	both.addHistogram(&l.before)
	return both.upperBound(both.count / rare)
}

const (
	// A histogram's first bucket ends at finest; each ends at a value that is 2^(1/octave) times that of the one
	// before, so that what it tells is at most 9 % too long. The last one has no end.
	finest  = 10 * time.Microsecond
	octave  = 8
	buckets = 20 * octave // up to 9.6 s
)

// histogram counts durations by their order of magnitude.
type histogram struct {
	counts  [buckets]uint32
	count   int
	longest time.Duration
}

func (h *histogram) addDuration(d time.Duration) {
	at := 0
	if d > finest {
		at = min(int(math.Ceil(octave*math.Log2(float64(d)/float64(finest)))), buckets-1)
	}
	h.counts[at]++
	h.count++
	h.longest = max(h.longest, d)
}

func (h *histogram) addHistogram(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.count += other.count
	h.longest = max(h.longest, other.longest)
}

// upperBound is a duration that exactly so many exceed at the most, and that is no longer than the longest.
func (h *histogram) upperBound(exceed int) time.Duration {
	for at := buckets - 1; at > 0; at-- {
		if exceed -= int(h.counts[at]); exceed < 0 {
			if at == buckets-1 {
				break
			}
			return min(h.longest, time.Duration(float64(finest)*math.Exp2(float64(at)/octave)))
		}
	}
	if exceed >= 0 {
		return min(h.longest, finest)
	}
	return h.longest
}

// noteStep takes note of a step of a model.
func (e *executor) noteStep(model string, took time.Duration) {
	l := e.steps[model]
	if l == nil {
		l = &longest{}
		e.steps[model] = l
	}
	l.addStep(took, time.Now())
}

// tellStepBounds tells the scheduler of the bounds on models' steps when one is new, and then when one has changed by a
// quarter, and by a millisecond. It is called when a pass has ended, those nested in long ones included.
func (e *executor) tellStepBounds() {
	for i := range e.info.Models {
		m := &e.info.Models[i]
		l := e.steps[m.Name]
		if l == nil {
			continue
		}
		bound := l.stepBound()
		if off := (bound - m.Step).Abs(); m.Step == 0 && bound > 0 || off > time.Millisecond && off > m.Step/4 {
			e.tell()
			return
		}
	}
}
