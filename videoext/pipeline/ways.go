package pipeline

import (
	"fmt"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Fixed has one configuration for all intervals.
type Fixed struct{ Config oneadapt.Config }

// Serve implements Way.
func (f Fixed) Serve(interval int, a *Account) (Result, error) { return Serve(interval, f.Config, a) }

// Serve sends an interval at a configuration.
func Serve(interval int, c oneadapt.Config, a *Account) (Result, error) {
	in, err := a.Prepare(interval, c)
	if err != nil {
		return nil, err
	}
	a.Send(in, c)
	return a.Infer(in)
}

// Heuristic sets the knobs by what was found in the interval before; of the first, the dearest ones.
type Heuristic struct {
	Next func(last Result) oneadapt.Config

	last Result
	told bool
}

// Serve implements Way.
func (h *Heuristic) Serve(interval int, a *Account) (r Result, err error) {
	c := oneadapt.Dearest(a.Knobs())
	if h.told {
		c = h.Next(h.last)
	}
	h.last, err = Serve(interval, c, a)
	h.told = true
	return h.last, err
}

// OneAdapt sets the knobs by gradients.
type OneAdapt struct {
	Rule    func(knobs []oneadapt.Knob) (oneadapt.Rule, error)
	Options oneadapt.Options
	// Lag is how many intervals old gradients are when they come. Usual is one. 0 is an oracle: it has the gradient of an interval before that is sent, at the
	// configuration of the one before.
	Lag int
	// Move, where set, makes of an interval's gradient what it is taken to be in a later one.
	Move func(m *oneadapt.Map, of, in int) *oneadapt.Map
	// Lose says of which intervals no gradient comes; nil: of none.
	Lose func(interval int) bool

	adapter *oneadapt.Adapter
	slope   *oneadapt.Map // that trials are measured by
	waiting []gradient    // on their way, the oldest first
	used    oneadapt.Config
}

// gradient is that of an interval.
type gradient struct {
	*oneadapt.Map
	of int
}

// Serve implements Way.
func (o *OneAdapt) Serve(interval int, a *Account) (r Result, err error) {
	if o.adapter == nil {
		rule, err := o.Rule(a.Knobs())
		if err != nil {
			return nil, err
		}
		if o.adapter, err = oneadapt.New(rule, a.Knobs(), o.Options); err != nil {
			return nil, err
		}
	}
	if err := o.receiveGradient(interval, a); err != nil {
		return nil, err
	}
	todo := o.adapter.Step(oneadapt.Captured{Interval: interval})
	var sent Input
	for len(todo) > 0 {
		action := todo[0]
		todo = todo[1:]
		switch do := action.(type) {
		case oneadapt.Use:
			o.used = do.Config
			if sent, err = a.Prepare(interval, do.Config); err != nil {
				return nil, err
			}
			a.Send(sent, do.Config)
			if r, err = a.Infer(sent); err != nil {
				return nil, err
			}
		case oneadapt.Measure:
			measured, err := o.measure(do, a)
			if err != nil {
				return nil, err
			}
			todo = append(todo, o.adapter.Step(measured)...)
		}
	}
	if sent == nil {
		return nil, fmt.Errorf("interval %d was not sent", interval)
	}
	if o.Lag == 0 {
		return r, nil
	}
	return r, o.requestGradient(interval, sent, a)
}

// requestGradient asks for the gradient of an interval.
func (o *OneAdapt) requestGradient(interval int, in Input, a *Account) error {
	if o.Lose != nil && o.Lose(interval) {
		return nil
	}
	m, err := a.Gradient(in)
	o.waiting = append(o.waiting, gradient{m, interval})
	return err
}

// receiveGradient takes the gradient that has come when an interval is there. One that is of the interval itself is given for that of the one before.
func (o *OneAdapt) receiveGradient(interval int, a *Account) error {
	if o.Lag == 0 && o.used != nil {
		in, err := a.lab.prepareOnce(interval, o.used)
		if err == nil {
			err = o.requestGradient(interval, in, a)
		}
		if err != nil {
			return err
		}
	}
	for len(o.waiting) > 0 && o.waiting[0].of <= interval-o.Lag {
		g := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.slope = g.Map
		if o.Move != nil {
			o.slope = o.Move(g.Map, g.of, interval)
		}
		o.adapter.Step(oneadapt.Answered{Interval: min(g.of, interval-1), Utility: float64(g.Utility)})
	}
	return nil
}

// measure carries out trials.
func (o *OneAdapt) measure(do oneadapt.Measure, a *Account) (m oneadapt.Measured, err error) {
	m.Interval = do.Interval
	top, err := a.lab.prepareOnce(do.Interval, oneadapt.Dearest(a.Knobs()))
	if err != nil {
		return m, err
	}
	against, err := a.Prepare(do.Interval, do.Against)
	if err != nil {
		return m, err
	}
	whole := max(top.Cost(), 1e-9)
	trial := func(c oneadapt.Config, in Input) (oneadapt.Trial, error) {
		changes, err := a.Changes(o.slope, against, in)
		t := oneadapt.Trial{Config: c, Changes: changes, Cost: in.Cost() / whole}
		if parted, ok := in.(Parted); ok {
			for _, cost := range parted.Costs() {
				t.Costs = append(t.Costs, cost/whole)
			}
		}
		return t, err
	}
	if m.Against, err = trial(do.Against, against); err != nil {
		return m, err
	}
	for _, c := range do.Configs {
		in, err := a.Prepare(do.Interval, c)
		if err != nil {
			return m, err
		}
		t, err := trial(c, in)
		if err != nil {
			return m, err
		}
		m.Trials = append(m.Trials, t)
	}
	return m, nil
}
