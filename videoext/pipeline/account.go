package pipeline

import "github.com/prefillonly/prefillonly/videoext/oneadapt"

// Account is what a way does for an interval, and adds it up.
type Account struct {
	lab *Lab
	*Step
}

// Knobs are the pipeline's.
func (a *Account) Knobs() []oneadapt.Knob { return a.lab.Knobs() }

// Prepare makes what would be sent of an interval, on the sensor.
func (a *Account) Prepare(interval int, c oneadapt.Config) (Input, error) {
	a.Prepared++
	return a.lab.prepareOnce(interval, c)
}

// Send sends what was prepared. Config says by which configuration, for the account.
func (a *Account) Send(in Input, c oneadapt.Config) {
	a.Cost += in.Cost()
	a.Config = c
}

// Infer has the network find what is in what was sent.
func (a *Account) Infer(in Input) (Result, error) {
	a.Inferences++
	return a.lab.inferOnce(in)
}

// Gradient is that at what was sent, as it comes to the sensor.
func (a *Account) Gradient(in Input) (*oneadapt.Map, error) {
	data, err := a.lab.gradientOnce(in)
	if err != nil {
		return nil, err
	}
	a.Gradients++
	a.Feedback += len(data)
	return oneadapt.ReadMap(data)
}

// Changes is the pipeline's.
func (a *Account) Changes(m *oneadapt.Map, against, in Input) ([]float64, error) {
	return a.lab.Changes(m, against, in)
}

// Sense is what the sensor knows of an interval's content before it prepares it. The pipeline is a Sensed.
func (a *Account) Sense(interval int) ([]float64, error) { return a.lab.Sense(interval) }

// Sure is how sure the network is of a result. The pipeline is a Sensed.
func (a *Account) Sure(r Result) float64 { return a.lab.Pipeline.(Sensed).Sure(r) }

// Measure is what an interval would cost at a configuration, which is not counted: a figure that a way is set by.
func (a *Account) Measure(interval int, c oneadapt.Config) (cost float64, err error) {
	in, err := a.lab.prepareOnce(interval, c)
	if err != nil {
		return 0, err
	}
	return in.Cost(), nil
}

// Try has the server make a configuration of an interval whose dearest one was sent, and the network look at it: how accurate it is, and what it would cost as a
// part of the dearest one's.
func (a *Account) Try(interval int, c oneadapt.Config) (accuracy, cost float64, err error) {
	a.Inferences++
	accuracy, cost, _, err = a.lab.Try(interval, c)
	if err != nil {
		return 0, 0, err
	}
	whole, err := a.Measure(interval, oneadapt.Dearest(a.Knobs()))
	return accuracy, cost / max(whole, 1e-9), err
}
