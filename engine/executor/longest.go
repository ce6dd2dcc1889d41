package executor

import "time"

// longest is the longest step of a model's passes, of late. It bounds steps for promises of deadlines, so it is
// no mean; a mishap on the machine is forgotten after one or two windows in which the model is used.
type longest struct {
	since       time.Time // of the current window
	now, before time.Duration
}

const window = 5 * time.Minute

func (l *longest) add(step time.Duration, at time.Time) {
	if at.Sub(l.since) > window {
		l.since, l.before, l.now = at, l.now, 0
	}
	l.now = max(l.now, step)
}

func (l *longest) step() time.Duration { return max(l.now, l.before) }

// measured takes note of the longest step of a pass. It is told when it is new, and then when the bound has
// changed by a quarter, and by a millisecond.
func (e *executor) measured(model string, step time.Duration) {
	l := e.steps[model]
	l.add(step, time.Now())
	e.steps[model] = l
	for i := range e.info.Models {
		m := &e.info.Models[i]
		off := (l.step() - m.Step).Abs()
		if m.Name == model && (m.Step == 0 || off > time.Millisecond && off > m.Step/4) {
			e.tell()
			return
		}
	}
}
