package host

import (
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/scheduler/stages"
)

// processorRate is how many processors a thread of weight 1 has.
func (w *world) processorRate() float64 {
	sum := 0.
	for _, t := range w.threads {
		sum += t.weight
	}
	return min(1, float64(w.Processors)/sum)
}

// nextEnd is when the next thread ends, if any runs.
func (w *world) nextEnd() (at float64, runs bool) {
	at = math.Inf(1)
	if w.apart != nil {
		at = w.now + w.apart.left
	}
	rate := w.processorRate()
	for _, t := range w.threads {
		at = min(at, w.now+t.left/(rate*t.weight))
	}
	return at, !math.IsInf(at, 1)
}

// advanceTo has threads run until then.
func (w *world) advanceTo(then float64) {
	rate := w.processorRate()
	for _, t := range w.threads {
		t.left -= (then - w.now) * rate * t.weight
	}
	if w.apart != nil {
		w.apart.left -= then - w.now
	}
	w.now = then
}

// endThreads ends those that have nothing left.
func (w *world) endThreads() {
	const none = 1e-9
	var ended []*thread
	if w.apart != nil && w.apart.left <= none {
		ended, w.apart = append(ended, w.apart), nil
	}
	w.threads = slices.DeleteFunc(w.threads, func(t *thread) bool {
		if t.left <= none {
			ended = append(ended, t)
		}
		return t.left <= none
	})
	for _, t := range ended {
		w.endThread(t)
	}
}

func (w *world) endThread(t *thread) {
	c := t.call
	part := c.at()
	c.held += w.now - c.since
	if c.left -= t.lasts; c.left > 0 {
		about := part.Takes.Seconds() * c.left / part.Took.Seconds()
		w.stepCore(stages.Yield{ID: c.id, Left: duration(about)})
		return
	}
	ran := duration(w.now - c.began)
	c.record.Ran = append(c.record.Ran, ran)
	w.trips[part.Kind] += tripWeight * (w.now - c.asked - seconds(part.Takes) - w.trips[part.Kind])
	switch {
	case part.Device:
		w.endPass()
	case w.core != nil:
		delete(w.calls, c.id)
		w.stepCore(stages.Done{ID: c.id, Took: duration(c.held)})
	}
	c.part++
	w.beginPart(c)
}

// endPass gives the device to the next.
func (w *world) endPass() {
	if w.queue = w.queue[1:]; len(w.queue) > 0 {
		w.startPass()
	}
}
