package oneadapt

import (
	"fmt"
	"math"
	"slices"
)

// Event is what an Adapter is told.
type Event interface{ isEvent() }

// Action is what an Adapter asks for.
type Action interface{ isAction() }

// Captured says that an interval's data is there. Intervals come in order; some may be left out.
type Captured struct{ Interval int }

// Answered says that the gradient of an interval is there, and how many elements the network has found in it. It comes late, or not at all, without
// harm.
type Answered struct {
	Interval int
	Utility  float64
}

// Measured answers Measure. Its trials are those that were asked for, in order.
type Measured struct {
	Interval int
	Against  Trial
	Trials   []Trial
}

// NotMeasured answers Measure: nothing will come of it.
type NotMeasured struct{ Interval int }

func (Captured) isEvent()    {}
func (Answered) isEvent()    {}
func (Measured) isEvent()    {}
func (NotMeasured) isEvent() {}

// Use says how an interval is to be prepared. Each that was captured gets one, in order.
type Use struct {
	Interval int
	Config   Config
}

// Measure asks for trials of an interval by the gradient of another one. Gradients of earlier intervals than that are needed no more.
type Measure struct {
	Interval, Gradient int
	Probe
}

func (Use) isAction()     {}
func (Measure) isAction() {}

// Options are how an Adapter works.
type Options struct {
	// Ahead measures an interval before it is prepared, by the gradient of one before, so that its own configuration follows. Else what is measured of an
	// interval is for the next one.
	Ahead bool
	Fresh int // intervals for which a gradient may be used
	// Blind is after how many intervals in which no setting changed the output the dearest configuration is tried for one: a network that sees nothing
	// has no gradient. Each time in vain doubles it, up to eightfold. 0: never.
	Blind int
}

// Usual are for intervals of a second.
func Usual() Options { return Options{Fresh: 5, Blind: 5} }

// Adapter asks for trials, and says how each interval is prepared. One goroutine uses it.
type Adapter struct {
	options Options
	rule    Rule
	dearest Config
	config  Config // the rule's, of the next interval

	gradient int // the latest interval whose gradient is there; -1: none
	utility  float64
	measure  *Measure // under way
	captured int      // the latest interval; -1: none
	used     int      // the latest that got its Use; -1: none

	blind    int  // intervals without change, one after the other
	patience int  // how many of them there may be
	looks    bool // the next interval alone has the dearest configuration
}

// New begins with the rule's first configuration.
func New(rule Rule, knobs []Knob, o Options) (*Adapter, error) {
	if o.Fresh < 1 || o.Blind < 0 {
		return nil, fmt.Errorf("gradients that are fresh for %d intervals, and blind after %d", o.Fresh, o.Blind)
	}
	return &Adapter{options: o, rule: rule, dearest: Dearest(knobs), config: rule.Start(), gradient: -1, captured: -1, used: -1, patience: o.Blind}, nil
}

// Step takes what happened, and returns what is to be done. What is about intervals that are not under way is ignored.
func (a *Adapter) Step(event Event) []Action {
	switch e := event.(type) {
	case Captured:
		return a.handleCaptured(e.Interval)
	case Answered:
		if e.Interval > a.gradient && e.Interval <= a.captured && e.Utility >= 0 && !math.IsInf(e.Utility, 0) {
			a.gradient, a.utility = e.Interval, e.Utility
		}
	case Measured:
		return a.handleMeasured(&e)
	case NotMeasured:
		if a.measure != nil && a.measure.Interval == e.Interval {
			a.measure = nil
			return a.prepareCaptured(nil)
		}
	}
	return nil
}

func (a *Adapter) handleCaptured(interval int) (do []Action) {
	if interval <= a.captured {
		return nil
	}
	do = a.prepareCaptured(nil) // its measurement takes too long, and is for later ones
	a.captured = interval
	if a.measure != nil && interval-a.measure.Interval > a.options.Fresh {
		a.measure = nil
	}
	if a.measure != nil || a.gradient < 0 || interval-a.gradient > a.options.Fresh {
		return a.prepareCaptured(do)
	}
	a.measure = &Measure{interval, a.gradient, a.rule.Probe(a.config)}
	if a.options.Ahead {
		return append(do, *a.measure)
	}
	return append(a.prepareCaptured(do), *a.measure)
}

// prepareCaptured lets the interval that was captured last be prepared, if it was not.
func (a *Adapter) prepareCaptured(do []Action) []Action {
	if a.used == a.captured {
		return do
	}
	a.used = a.captured
	config := a.config
	if a.looks {
		config, a.looks = a.dearest, false
	}
	return append(do, Use{a.used, slices.Clone(config)})
}

// handleMeasured takes in what the settings do.
func (a *Adapter) handleMeasured(e *Measured) []Action {
	m := a.measure
	if m == nil || m.Interval != e.Interval {
		return nil
	}
	a.measure = nil
	if !isValidMeasurement(e, m) {
		return a.prepareCaptured(nil)
	}
	a.config = a.rule.Next(e.Against, e.Trials, a.utility)
	a.probeDearest(e.Trials)
	return a.prepareCaptured(nil)
}

// isValidMeasurement says that a measurement is of what was asked for, in numbers that can be reckoned with.
func isValidMeasurement(e *Measured, m *Measure) bool {
	if !e.Against.isValidFor(m.Against, m.Parts) || len(e.Trials) != len(m.Configs) {
		return false
	}
	for i := range e.Trials {
		if !e.Trials[i].isValidFor(m.Configs[i], m.Parts) {
			return false
		}
	}
	return true
}

// leastChange is the part of one element below which settings are said to change nothing.
const leastChange = 0.01

// probeDearest tries the dearest configuration when no settings have changed anything for long.
func (a *Adapter) probeDearest(trials []Trial) {
	most := 0.0
	for i := range trials {
		most = max(most, trials[i].totalChange())
	}
	switch {
	case a.options.Blind == 0:
	case most >= leastChange:
		a.blind, a.patience = 0, a.options.Blind
	default:
		if a.blind++; a.blind >= a.patience {
			a.looks, a.blind, a.patience = true, 0, min(2*a.patience, 8*a.options.Blind)
		}
	}
}
