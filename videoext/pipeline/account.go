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
	return a.lab.prepare(interval, c)
}

// Send sends what was prepared. Config says by which configuration, for the account.
func (a *Account) Send(in Input, c oneadapt.Config) {
	a.Cost += in.Cost()
	a.Config = c
}

// Look has the network look at what was sent.
func (a *Account) Look(in Input) (Result, error) {
	a.Looks++
	return a.lab.look(in)
}

// Slope is the gradient at what was sent, as it comes to the sensor.
func (a *Account) Slope(in Input) (*oneadapt.Map, error) {
	data, err := a.lab.slope(in)
	if err != nil {
		return nil, err
	}
	a.Slopes++
	a.Feedback += len(data)
	return oneadapt.ReadMap(data)
}

// Changes is the pipeline's.
func (a *Account) Changes(m *oneadapt.Map, against, in Input) ([]float64, error) {
	return a.lab.Changes(m, against, in)
}

// Profile is how accurate a configuration is for an interval. The dearest one is sent for it, and both are looked at.
func (a *Account) Profile(interval int, c oneadapt.Config) (accuracy, cost float64, err error) {
	best := oneadapt.Dearest(a.Knobs())
	dearest, err := a.Prepare(interval, best)
	if err != nil {
		return 0, 0, err
	}
	in, err := a.Prepare(interval, c)
	if err != nil {
		return 0, 0, err
	}
	truth, err := a.lab.look(dearest)
	if err != nil {
		return 0, 0, err
	}
	got, err := a.Look(in)
	if err != nil {
		return 0, 0, err
	}
	return a.lab.Accuracy(truth, got), in.Cost() / max(dearest.Cost(), 1e-9), nil
}
