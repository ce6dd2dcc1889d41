package host

import (
	"errors"
	"slices"
	"time"

	"github.com/prefillonly/prefillonly/engine"
	"github.com/prefillonly/prefillonly/engine/dnn"
	"github.com/prefillonly/prefillonly/engine/executor/profile"
)

const (
	trialTime   = 50 * time.Millisecond // that the passes of a trial may take together, about: one that takes longer is timed once
	passTime    = time.Second           // after which what is left of a pass is estimated by its share
	trialPasses = 7                     // that count at the most; the one before them warms caches
	maxRestarts = 5                     // of passes of a trial, after which it is left out: others compute there all the time
	steady      = 1.2                   // how much longer than the shortest pass the second shortest takes at the most
)

// measuring finds out what passes of a network cost, step by step, so that others may run between. All of it takes three
// or four times passTime at most, its plans aside, and seldom a fifth of that.
type measuring struct {
	of     *dnn.Model
	trials []dnn.Trial  // the first one is being timed
	now    *dnn.Timed   // nil between trials, and while it is planned
	next   chan planned // of which it comes; nil while none is planned
	count  int          // its passes so far
	took   []time.Duration
	best   profile.Sample // of them

	frames, others, gradients []profile.Sample
	disturbed                 bool
}

// planned is a trial that was planned, or why it could not be.
type planned struct {
	now *dnn.Timed
	err error
}

func newMeasuring(m *dnn.Model) *measuring { return &measuring{of: m, trials: m.Trials()} }

// stepMeasuring goes on, and reports whether all is measured.
func (t *measuring) stepMeasuring() (done bool, err error) {
	switch {
	case t.now != nil:
		return false, t.stepTrial()
	case t.next != nil:
		return false, t.waitForPlan()
	case len(t.trials) == 0:
		return true, nil
	case t.isWorthwhile(&t.trials[0]):
		t.planTrial()
	default:
		t.endTrial()
	}
	return false, nil
}

// planTrial begins to plan the next trial, beside the device. The goroutine ends with that; end waits for it.
func (t *measuring) planTrial() {
	next, trial := make(chan planned, 1), t.trials[0]
	t.next = next
	go func() {
		now, err := t.of.Time(trial)
		next <- planned{now, err}
	}()
}

// waitForPlan waits for a plan, but not for long: passes may be stepped meanwhile. What takes too much memory is left out, as is
// a size that the network does not take.
func (t *measuring) waitForPlan() error {
	var p planned
	select {
	case p = <-t.next:
	case <-time.After(time.Millisecond):
		return nil
	}
	t.next = nil
	if t.now = p.now; p.err == nil {
		return nil
	}
	resized := t.trials[0].Size != 1
	t.endTrial()
	var known *engine.Error
	if errors.As(p.err, &known) && (known.Code == engine.CodeTooLong || resized) {
		return nil
	}
	return p.err
}

// stepTrial takes a step of the trial.
func (t *measuring) stepTrial() error {
	ended, err := t.now.Advance()
	switch {
	case err != nil || t.now.Restarts > maxRestarts:
		t.disturbed = true
		t.endTrial()
	case ended || t.now.Took > passTime:
		t.notePass(t.now.Whole(), t.now.Step)
	}
	return err
}

// isWorthwhile says whether a trial is worth its time. Other sizes are one larger frame, or a smaller one.
func (t *measuring) isWorthwhile(trial *dnn.Trial) bool {
	if len(t.frames) == 0 {
		return trial.Frames == 1 && trial.Size == 1 && !trial.Backward
	}
	own := t.frames[0].Took
	switch {
	case trial.Backward:
		return true
	case trial.Size > 1:
		return trial.Size*float64(own) < 4*float64(trialTime)
	case trial.Size < 1:
		return len(t.others) == 0
	}
	return own < trialTime
}

// notePass takes note of a pass, and ends the trial with the last one. Of several the first one counts only where it is the
// only one, as it warms caches; of the others the shortest, since others may use the processor, too.
func (t *measuring) notePass(took, step time.Duration) {
	trial := &t.trials[0]
	t.count++
	if t.count == 2 {
		t.took = nil
	}
	if t.took = append(t.took, took); took == slices.Min(t.took) {
		t.best = profile.Sample{Input: trial.Frames, Size: trial.Size, Took: took, Step: step}
	}
	var spent time.Duration
	for _, one := range t.took {
		spent += one
	}
	if spent < trialTime && t.count <= trialPasses {
		return
	}
	if slices.Sort(t.took); len(t.took) > 1 && float64(t.took[1]) > steady*float64(t.took[0]) {
		t.disturbed = true
	}
	switch {
	case trial.Backward:
		t.gradients = append(t.gradients, t.best)
	case trial.Size != 1:
		t.others = append(t.others, t.best)
	default:
		t.frames = append(t.frames, t.best)
	}
	t.endTrial()
}

// endTrial ends the trial that is being timed or planned.
func (t *measuring) endTrial() {
	if t.next != nil {
		t.now = (<-t.next).now
		t.next = nil
	}
	if t.now != nil {
		t.now.Close()
	}
	t.now, t.count, t.took = nil, 0, nil
	t.trials = t.trials[min(1, len(t.trials)):]
}

// measuredFit is what was measured; ok is false if nothing was.
func (t *measuring) measuredFit() (f profile.Fit, ok bool, err error) {
	if len(t.frames) == 0 {
		return f, false, nil
	}
	f, err = profile.FitFrames(t.frames, t.others, t.gradients)
	return f, err == nil, err
}
