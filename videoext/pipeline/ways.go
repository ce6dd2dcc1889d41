package pipeline

import (
	"fmt"
	"slices"

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
	return a.Look(in)
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

// Profiled tries some configurations every so many intervals, and keeps the one of the greatest accuracy less Weight x cost (Jiang and others, "Chameleon",
// SIGCOMM 2018, whose candidates are few at a time; Zhang and others, "AWStream", SIGCOMM 2018, who profile all of a grid).
type Profiled struct {
	Every   int // intervals
	Long    int // of them, one after the other, that are profiled; 0: one
	Weight  float64
	Configs []oneadapt.Config

	values []float64 // of configurations, over the intervals that are profiled
	best   oneadapt.Config
}

// Serve implements Way. An interval that is profiled is sent at the dearest configuration.
func (p *Profiled) Serve(interval int, a *Account) (Result, error) {
	at, last := interval%p.Every, max(p.Long, 1)-1
	if at > last && p.best != nil {
		return Serve(interval, p.best, a)
	}
	if at == 0 || p.values == nil {
		p.values = make([]float64, len(p.Configs))
	}
	for i, c := range p.Configs {
		accuracy, cost, err := a.Profile(interval, c)
		if err != nil {
			return nil, err
		}
		p.values[i] += accuracy - p.Weight*cost
	}
	if at >= last {
		p.best = p.Configs[slices.Index(p.values, slices.Max(p.values))]
	}
	return Serve(interval, oneadapt.Dearest(a.Knobs()), a)
}

// Grid are all configurations of every so-manieth setting of each knob, the dearest among them.
func Grid(knobs []oneadapt.Knob, every int) []oneadapt.Config {
	all := []oneadapt.Config{{}}
	for i := range knobs {
		var more []oneadapt.Config
		for _, c := range all {
			for s := len(knobs[i].Places) - 1; s >= 0; s -= every {
				more = append(more, append(c[:len(c):len(c)], s))
			}
		}
		all = more
	}
	return all
}

// OneAdapt sets the knobs by gradients, which are those of the interval before.
type OneAdapt struct {
	Rule    func(knobs []oneadapt.Knob) (oneadapt.Rule, error)
	Options oneadapt.Options
	// Lose says of which intervals no gradient comes; nil: of none.
	Lose func(interval int) bool

	adapter *oneadapt.Adapter
	slope   *oneadapt.Map
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
	todo := o.adapter.Step(oneadapt.Captured{Interval: interval})
	var sent Input
	for len(todo) > 0 {
		action := todo[0]
		todo = todo[1:]
		switch do := action.(type) {
		case oneadapt.Use:
			if sent, err = a.Prepare(interval, do.Config); err != nil {
				return nil, err
			}
			a.Send(sent, do.Config)
			if r, err = a.Look(sent); err != nil {
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
	if o.Lose != nil && o.Lose(interval) {
		return r, nil
	}
	if o.slope, err = a.Slope(sent); err != nil {
		return nil, err
	}
	o.adapter.Step(oneadapt.Answered{Interval: interval, Utility: float64(o.slope.Utility)})
	return r, nil
}

// measure carries out trials.
func (o *OneAdapt) measure(do oneadapt.Measure, a *Account) (m oneadapt.Measured, err error) {
	m.Interval = do.Interval
	top, err := a.lab.prepare(do.Interval, oneadapt.Dearest(a.Knobs()))
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
