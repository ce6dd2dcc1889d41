package casva

import (
	"fmt"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
	"github.com/prefillonly/prefillonly/videoext/pipeline"
)

// Way implements pipeline.Way, for a pipeline.Sensed.
type Way struct {
	Policy *Policy // nil: Streets
	// Share is the rate of the link, as a part of what the first interval costs at the dearest configuration.
	Share float64

	history *History
	link    Link
	rate    float64
	last    pipeline.Result
}

// Serve implements pipeline.Way. An interval that finds the link jammed is left out, and what was found last stands for it.
func (w *Way) Serve(interval int, a *pipeline.Account) (pipeline.Result, error) {
	if w.history == nil {
		if err := w.beginHistory(interval, a); err != nil {
			return nil, err
		}
	}
	if w.link.Jammed(w.rate) {
		_, lag := w.link.Send(0, w.rate)
		w.history.Lag = lag
		return w.last, nil
	}
	content, err := a.Sense(interval)
	if err != nil {
		return nil, err
	}
	if len(content) != Content {
		return nil, fmt.Errorf("casva: a sensor tells %d numbers of an interval, want %d", len(content), Content)
	}
	choice := w.Policy.Choose(w.history.State(content))
	config := w.Policy.Config(choice)
	in, err := a.Prepare(interval, config)
	if err != nil {
		return nil, err
	}
	a.Send(in, config)
	r, err := a.Infer(in)
	if err != nil {
		return nil, err
	}
	_, lag := w.link.Send(in.Cost(), w.rate)
	w.history.Sent(w.Policy, choice, in.Cost(), w.rate, lag, a.Sure(r))
	w.last = r
	return r, nil
}

func (w *Way) beginHistory(interval int, a *pipeline.Account) (err error) {
	if w.Policy == nil {
		if w.Policy, err = StreetPolicy(); err != nil {
			return err
		}
	}
	knobs := a.Knobs()
	if len(w.Policy.Ladders) != len(knobs) {
		return fmt.Errorf("casva: a policy of %d knobs, and the pipeline has %d", len(w.Policy.Ladders), len(knobs))
	}
	for i, l := range w.Policy.Ladders {
		for _, setting := range l {
			if setting >= len(knobs[i].Places) {
				return fmt.Errorf("casva: the policy has setting %d of knob %s, which has %d", setting, knobs[i].Name, len(knobs[i].Places))
			}
		}
	}
	dearest, err := a.Measure(interval, oneadapt.Dearest(knobs))
	if err != nil {
		return err
	}
	w.rate = w.Share * dearest
	w.history = BeginHistory(len(knobs), w.rate)
	return nil
}
