// Package pipeline runs streaming pipelines whose knobs are set interval by interval, and keeps an account of what each way to set them takes (Du and
// others, "OneAdapt", SoCC 2023, section 4.2 of the dissertation).
package pipeline

import (
	"fmt"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Pipeline is recorded data of a sensor, a way to prepare it that has knobs, and a network that looks at what is sent. One goroutine uses it.
type Pipeline interface {
	Name() string
	Knobs() []oneadapt.Knob
	// Parts says that each knob acts on a part of the input of its own.
	Parts() bool
	Intervals() int
	// Prepare makes what the sensor sends of an interval at a configuration.
	Prepare(interval int, c oneadapt.Config) (Input, error)
	// Infer is what the network finds in it.
	Infer(in Input) (Result, error)
	// Gradient is how the utility of what the network finds in it changes with its parts.
	Gradient(in Input) (*oneadapt.Map, error)
	// Changes are by how much that utility differs, to first order, between two inputs of an interval: one for each knob if each has a part of its own, else one in all.
	Changes(m *oneadapt.Map, against, in Input) ([]float64, error)
	// Accuracy is how well a result agrees with another one that is taken for the truth, from 0 to 1.
	Accuracy(truth, got Result) float64
}

// Input is what a network is shown of an interval: a pointer to what is not changed.
type Input interface {
	// Cost is the resource that sending or looking at it takes, in the pipeline's unit: bytes, or frames.
	Cost() float64
}

// Grouped is a Pipeline of which so many knobs move together where gradients are compared with accuracy, knob by knob.
type Grouped interface {
	Groups() [][]int // numbers of knobs
}

// Each are groups of one knob.
func Each(knobs int) [][]int {
	groups := make([][]int, knobs)
	for i := range groups {
		groups[i] = []int{i}
	}
	return groups
}

// Parted is an Input of which it is known what the part of each knob costs.
type Parted interface {
	Input
	Costs() []float64 // in the unit of Cost; their sum is that
}

// Sensed is a Pipeline of which something is known beside what its network finds.
type Sensed interface {
	Pipeline
	// Sense is what a sensor tells of an interval's content before it prepares it, each from 0 to 1.
	Sense(interval int) ([]float64, error)
	// Sure is how sure the network is of what it found, from 0 to 1.
	Sure(r Result) float64
}

// Result is what a network found in an interval, in a pipeline's own form.
type Result any

// Way sets the knobs of one stream.
type Way interface {
	// Serve deals with the next interval: what is done for it goes through the account.
	Serve(interval int, a *Account) (Result, error)
}

// Lab runs ways on one pipeline, and does the same work once.
type Lab struct {
	Pipeline
	inputs  map[key]Input
	results map[Input]Result
	slopes  map[Input][]byte
}

type key struct {
	interval int
	config   string
}

// NewLab begins.
func NewLab(p Pipeline) *Lab {
	return &Lab{Pipeline: p, inputs: map[key]Input{}, results: map[Input]Result{}, slopes: map[Input][]byte{}}
}

// prepareOnce is Prepare, once.
func (l *Lab) prepareOnce(interval int, c oneadapt.Config) (Input, error) {
	k := key{interval, fmt.Sprint(c)}
	if in, ok := l.inputs[k]; ok {
		return in, nil
	}
	in, err := l.Prepare(interval, c)
	if err != nil {
		return nil, fmt.Errorf("%s: interval %d at %v: %w", l.Name(), interval, c, err)
	}
	l.inputs[k] = in
	return in, nil
}

// inferOnce is Infer, once.
func (l *Lab) inferOnce(in Input) (Result, error) {
	if r, ok := l.results[in]; ok {
		return r, nil
	}
	r, err := l.Infer(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name(), err)
	}
	l.results[in] = r
	return r, nil
}

// gradientOnce is Gradient, once, in its form for the wire.
func (l *Lab) gradientOnce(in Input) ([]byte, error) {
	if data, ok := l.slopes[in]; ok {
		return data, nil
	}
	m, err := l.Gradient(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name(), err)
	}
	data, err := m.AppendBinary(nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.Name(), err)
	}
	l.slopes[in] = data
	return data, nil
}

// groundTruth is what the network finds at the dearest configuration.
func (l *Lab) groundTruth(interval int) (Result, error) {
	in, err := l.prepareOnce(interval, oneadapt.Dearest(l.Knobs()))
	if err != nil {
		return nil, err
	}
	return l.inferOnce(in)
}

// Sense is what the sensor of a Sensed tells of an interval.
func (l *Lab) Sense(interval int) ([]float64, error) {
	sensed, ok := l.Pipeline.(Sensed)
	if !ok {
		return nil, fmt.Errorf("%s: the sensor tells nothing of an interval's content", l.Name())
	}
	return sensed.Sense(interval)
}

// Try is how accurate a configuration is for an interval, what it costs, and what the network finds, whoever pays for that.
func (l *Lab) Try(interval int, c oneadapt.Config) (accuracy, cost float64, r Result, err error) {
	truth, err := l.groundTruth(interval)
	if err != nil {
		return 0, 0, nil, err
	}
	in, err := l.prepareOnce(interval, c)
	if err != nil {
		return 0, 0, nil, err
	}
	if r, err = l.inferOnce(in); err != nil {
		return 0, 0, nil, err
	}
	return l.Accuracy(truth, r), in.Cost(), r, nil
}

// Step is an interval of a run.
type Step struct {
	Accuracy   float64
	Cost       float64 // of what was sent, as a part of what the dearest configuration's is
	Inferences int     // of the network at an interval's data
	Gradients  int     // gradients
	Prepared   int     // times that the sensor prepared the interval
	Feedback   int     // bytes of gradients
	Config     oneadapt.Config
}

// Run runs a way on all intervals.
func (l *Lab) Run(w Way) ([]Step, error) { return l.Part(w, 0, l.Intervals()) }

// Part runs a way on the intervals from one on to before another one.
func (l *Lab) Part(w Way, from, to int) ([]Step, error) {
	steps := make([]Step, to-from)
	for i := range steps {
		a := &Account{lab: l, Step: &steps[i]}
		got, err := w.Serve(from+i, a)
		if err != nil {
			return nil, err
		}
		truth, err := l.groundTruth(from + i)
		if err != nil {
			return nil, err
		}
		dearest, err := l.prepareOnce(from+i, oneadapt.Dearest(l.Knobs()))
		if err != nil {
			return nil, err
		}
		steps[i].Accuracy = l.Accuracy(truth, got)
		steps[i].Cost /= max(dearest.Cost(), 1e-9)
	}
	return steps, nil
}

// Mean is the mean of steps; its Config is that of the last.
func Mean(steps []Step) (m Step) {
	for i := range steps {
		s := &steps[i]
		m.Accuracy, m.Cost = m.Accuracy+s.Accuracy/float64(len(steps)), m.Cost+s.Cost/float64(len(steps))
		m.Inferences, m.Gradients, m.Prepared, m.Feedback = m.Inferences+s.Inferences, m.Gradients+s.Gradients, m.Prepared+s.Prepared, m.Feedback+s.Feedback
		m.Config = s.Config
	}
	return m
}
