package oneadapt

import (
	"fmt"
	"math"
	"slices"
)

// Ascent is plain gradient ascent (OneAdapt, 4.1.2): a knob's place goes up by Rate x (AccGrad - Weight x the gradient of the resource), and the
// setting is the nearest. AccGrad is OutputGrad for each element that was found.
type Ascent struct {
	Rate   float64 // alpha
	Weight float64 // lambda: how much accuracy, from 0 to 1, the resource of the dearest configuration is worth
	// Gain is how many elements a change of one is worth: 1 where sizes are right.
	Gain float64
	// Separable says that each knob acts on a part of the input of its own, such as a block, so that one trial with all knobs moved shows what each does. Then
	// gradients are taken for each knob's part of the whole: a knob of n counts n times, or, where it is known what each costs, as much more as it costs less than all do.
	Separable bool
	// Moments, where set, averages gradients by Adam.
	Moments *Adam
	// Elastic lets each knob have a rate of its own: it grows while the knob goes on one way, and halves when it turns (Riedmiller and Braun, "RPROP", 1993), so that
	// gentle slopes take few intervals, and steep ones do not go to and fro.
	Elastic bool
	// Above takes the cheapest setting at or above a knob's place, and not the nearest.
	Above bool

	knobs  []Knob
	places []float64
	rates  []float64 // as parts of Rate
	before []float64 // the last strides
}

// maxStride is how far a knob's place moves at once.
const maxStride = 0.5

// leastPart is how much of what knobs cost on average one is taken to cost at least: where next to nothing is sent, chance would decide, and a knob that costs nothing
// would stay where it is (the published code has one price for all blocks, so that one of no use takes its cheapest setting).
const leastPart = 0.01

// Of rates that are elastic.
const (
	grows     = 1.3
	leastRate = 1.0 / 8
	mostRate  = 3
)

// mostFactor is how large a setting may be that numbers are multiplied by.
const mostFactor = 1e6

func isValidFactor(v float64) bool { return v > 0 && v <= mostFactor }

// beginAscent sets the knobs.
func (a *Ascent) beginAscent(knobs []Knob, from Config) error {
	if !isValidFactor(a.Rate) || !(a.Weight == 0 || isValidFactor(a.Weight)) || !isValidFactor(a.Gain) {
		return fmt.Errorf("a rate of %v, a weight of %v and a gain of %v; they are above 0 and at most %v, and a weight may be 0", a.Rate, a.Weight, a.Gain, mostFactor)
	}
	if len(knobs) == 0 || len(from) != len(knobs) {
		return fmt.Errorf("%d knobs begin with %d settings", len(knobs), len(from))
	}
	a.knobs, a.places, a.rates, a.before = knobs, make([]float64, len(knobs)), make([]float64, len(knobs)), make([]float64, len(knobs))
	for i := range knobs {
		if err := knobs[i].check(); err != nil {
			return err
		}
		if from[i] < 0 || from[i] >= len(knobs[i].Places) {
			return fmt.Errorf("knob %s begins with setting %d of %d", knobs[i].Name, from[i], len(knobs[i].Places))
		}
		a.places[i], a.rates[i] = knobs[i].Places[from[i]], 1
	}
	return nil
}

// NewAscent begins with a configuration.
func NewAscent(a Ascent, knobs []Knob, from Config) (*Ascent, error) {
	if err := a.beginAscent(knobs, from); err != nil {
		return nil, err
	}
	if a.Moments != nil {
		moments := *a.Moments
		a.Moments = &moments
	}
	return &a, nil
}

// Start implements Rule.
func (a *Ascent) Start() Config { return a.currentConfig() }

func (a *Ascent) currentConfig() Config {
	c := make(Config, len(a.knobs))
	for i := range c {
		if a.Above {
			c[i] = a.knobs[i].atLeast(a.places[i])
		} else {
			c[i] = a.knobs[i].nearestSetting(a.places[i])
		}
	}
	return c
}

// Probe implements Rule: each knob moves by one setting, up where it can. Where knobs are separable, all that go up do so at once, and so do
// those that go down.
func (a *Ascent) Probe(used Config) Probe {
	probe := Probe{Against: used, Parts: 1}
	if !a.Separable {
		for i := range a.knobs {
			probe.Configs = append(probe.Configs, used.withSetting(i, a.knobs[i].neighbourSetting(used[i])))
		}
		return probe
	}
	probe.Parts = len(a.knobs)
	up, down := slices.Clone(used), slices.Clone(used)
	for i := range a.knobs {
		if to := a.knobs[i].neighbourSetting(used[i]); to > used[i] {
			up[i] = to
		} else {
			down[i] = to
		}
	}
	for _, c := range []Config{up, down} {
		if !slices.Equal(c, used) {
			probe.Configs = append(probe.Configs, c)
		}
	}
	return probe
}

// Next implements Rule.
func (a *Ascent) Next(used Trial, tried []Trial, utility float64) Config {
	slopes := make([]float64, len(a.knobs))
	for i := range tried {
		a.computeSlopes(slopes, &used, &tried[i], max(utility, 1))
	}
	if a.Moments != nil {
		a.Moments.averageSlopes(slopes)
	}
	for i, s := range slopes {
		if a.Elastic {
			a.adjustRate(i, s)
		}
		a.before[i] = max(-maxStride, min(maxStride, a.Rate*a.rates[i]*s))
		a.places[i] = max(0, min(1, a.places[i]+a.before[i]))
	}
	return a.currentConfig()
}

// adjustRate changes a knob's own rate.
func (a *Ascent) adjustRate(knob int, slope float64) {
	switch before := a.before[knob]; {
	case before*slope < 0:
		a.rates[knob] = max(a.rates[knob]/2, leastRate)
	case before*slope > 0:
		a.rates[knob] = min(a.rates[knob]*grows, mostRate)
	}
}

// computeSlopes puts the gradients of the objective in the places of the knobs that a trial moves.
func (a *Ascent) computeSlopes(slopes []float64, used, tried *Trial, utility float64) {
	moved := 0.0
	for i := range slopes {
		moved += a.knobDistance(i, used, tried) // all the same way
	}
	for i := range slopes {
		by := a.knobDistance(i, used, tried)
		if by == 0 {
			continue
		}
		change, share, cost := tried.Changes[0], 1.0, (tried.Cost-used.Cost)/moved
		if a.Separable {
			change, share = tried.Changes[i], float64(len(slopes))
		}
		if a.Separable && used.Costs != nil && tried.Costs != nil {
			cost = max((tried.Costs[i]-used.Costs[i])/by, leastPart/float64(len(slopes)))
			share = 1 / cost
		}
		slopes[i] = share * (a.Gain*change/utility/math.Abs(by) - a.Weight*cost)
	}
}

// knobDistance is how far a trial moves a knob.
func (a *Ascent) knobDistance(knob int, used, tried *Trial) float64 {
	return a.knobs[knob].Places[tried.Config[knob]] - a.knobs[knob].Places[used.Config[knob]]
}

// Adam averages gradients and their squares (Kingma and Ba, ICLR 2015).
type Adam struct {
	First, Second float64 // how much of the past stays: beta 1 and 2

	mean, square []float64
	steps        int
}

// averageSlopes puts what Adam makes of slopes in their place.
func (m *Adam) averageSlopes(slopes []float64) {
	if m.mean == nil {
		m.mean, m.square = make([]float64, len(slopes)), make([]float64, len(slopes))
	}
	m.steps++
	for i, s := range slopes {
		m.mean[i] = m.First*m.mean[i] + (1-m.First)*s
		m.square[i] = m.Second*m.square[i] + (1-m.Second)*s*s
		mean := m.mean[i] / (1 - math.Pow(m.First, float64(m.steps)))
		square := m.square[i] / (1 - math.Pow(m.Second, float64(m.steps)))
		slopes[i] = mean / (math.Sqrt(square) + 1e-8)
	}
}
