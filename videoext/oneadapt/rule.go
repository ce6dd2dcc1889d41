package oneadapt

import (
	"math"
	"slices"
)

// Probe is what a Rule wants to know of an interval: how the network's input would differ at some configurations from what it is at another.
type Probe struct {
	Against Config
	Configs []Config // at least one
	Parts   int      // changes that each trial has
}

// Trial is an interval at a configuration, as the sensor measured it.
type Trial struct {
	Config Config
	// Changes are by how much the utility of the network's output differs from what it is at Probe.Against: the size of DNNGrad times InputGrad
	// (Sizes). There are Probe.Parts: one for each knob if knobs are separable, that is each acts on a part of the input of its own, such as a block;
	// else one for all together.
	Changes []float64
	// Cost is the resource it takes, as a part of what the dearest configuration does.
	Cost float64
	// Costs are how much of it each knob takes, where that is known and knobs are separable; nil: each as much as the others.
	Costs []float64
}

// isValidFor says that a trial is of a configuration, in numbers that can be reckoned with.
func (t *Trial) isValidFor(c Config, parts int) bool {
	for _, v := range t.Changes {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
			return false
		}
	}
	for _, v := range t.Costs {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return false
		}
	}
	return slices.Equal(t.Config, c) && len(t.Changes) == parts && !math.IsNaN(t.Cost) && !math.IsInf(t.Cost, 0) && (t.Costs == nil || len(t.Costs) == parts)
}

// totalChange is the sum over all knobs.
func (t *Trial) totalChange() (sum float64) {
	for _, c := range t.Changes {
		sum += c
	}
	return sum
}

// Rule chooses configurations. One goroutine uses it.
type Rule interface {
	// Start is the first configuration.
	Start() Config
	Probe(used Config) Probe
	// Next is the configuration that follows, by what Probe asked for. Utility is the number of elements that the network has found.
	Next(against Trial, tried []Trial, utility float64) Config
}
