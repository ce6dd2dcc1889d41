package pipeline

import (
	"cmp"
	"slices"

	"github.com/prefillonly/prefillonly/videoext/oneadapt"
)

// Profiled tries configurations now and then, on intervals that were sent at the dearest one, from which the server makes the others by itself: so the stream pays for
// the dearest settings of these intervals, and the server for a look at each candidate. What was best is used from when all were looked at.
type Profiled struct {
	Every  int // intervals from one profile to the next, if the one before is done by then
	Long   int // intervals, one after the other, that are profiled; 0: one
	Search Search
	Goal   Goal
	// Spare is how many looks the server has for candidates in each interval; 0: as many as there are candidates.
	Spare float64
	// Known is what was found out beforehand, on other recordings: the stream begins with the best of it. Nil: with the dearest configuration.
	Known []Tried

	profile *profile
	began   int     // the interval that the last profile began with
	credit  float64 // looks that may be taken
	best    oneadapt.Config
}

// profile is one that is not done.
type profile struct {
	intervals  []int
	candidates []oneadapt.Config
	tried      []Tried // of candidates, sums over intervals
	done       int     // looks, candidate by candidate in each interval
}

// Tried is a configuration, and what it did.
type Tried struct {
	Config         oneadapt.Config
	Accuracy, Cost float64 // the cost as a part of the dearest one's
}

// Search says which configurations are worth a try.
type Search interface {
	Candidates() []oneadapt.Config
	// Learn is told what the last candidates did, and says of which configurations that tells something, and what.
	Learn(tried []Tried) []Tried
}

// Goal is what a configuration is chosen by: the most accurate that costs no more than Budget, and if none is that cheap the cheapest; without a budget, the
// greatest accuracy less Weight x cost.
type Goal struct{ Weight, Budget float64 }

// Worth puts configurations in order.
func (g Goal) Worth(t Tried) float64 {
	switch {
	case g.Budget == 0:
		return t.Accuracy - g.Weight*t.Cost
	case t.Cost > g.Budget:
		return -t.Cost
	}
	return t.Accuracy
}

// Best is the configuration that is worth most.
func (g Goal) Best(known []Tried) oneadapt.Config {
	return slices.MaxFunc(known, func(a, b Tried) int { return cmp.Compare(g.Worth(a), g.Worth(b)) }).Config
}

// Serve implements Way.
func (p *Profiled) Serve(interval int, a *Account) (Result, error) {
	dearest := oneadapt.Dearest(a.Knobs())
	if p.best == nil {
		if p.best = dearest; p.Known != nil {
			p.best = p.Goal.Best(p.Known)
		}
		p.beginProfiling(interval)
	} else if p.profile == nil && interval >= p.began+p.Every {
		p.beginProfiling(interval)
	}
	c := p.best
	recorded := p.profile != nil && len(p.profile.intervals) < max(p.Long, 1)
	if recorded {
		c = dearest
	}
	r, err := Serve(interval, c, a)
	if err != nil || p.profile == nil {
		return r, err
	}
	if recorded {
		p.profile.intervals = append(p.profile.intervals, interval)
	}
	return r, p.tryCandidates(a, dearest)
}

func (p *Profiled) beginProfiling(interval int) {
	candidates := p.Search.Candidates()
	p.profile, p.began, p.credit = &profile{candidates: candidates, tried: make([]Tried, len(candidates))}, interval, 0
	for i, c := range candidates {
		p.profile.tried[i].Config = c
	}
}

// tryCandidates tries candidates as far as the server has time. The dearest one is known: the stream itself was that.
func (p *Profiled) tryCandidates(a *Account, dearest oneadapt.Config) error {
	w := p.profile
	p.credit += p.Spare
	for ; w.done < len(w.intervals)*len(w.candidates); w.done++ {
		t := &w.tried[w.done%len(w.candidates)]
		if slices.Equal(t.Config, dearest) {
			t.Accuracy, t.Cost = t.Accuracy+1, t.Cost+1
			continue
		}
		if p.Spare > 0 && p.credit < 1 {
			return nil
		}
		accuracy, cost, err := a.Try(w.intervals[w.done/len(w.candidates)], t.Config)
		if err != nil {
			return err
		}
		t.Accuracy, t.Cost, p.credit = t.Accuracy+accuracy, t.Cost+cost, p.credit-1
	}
	if n := max(p.Long, 1); len(w.intervals) == n {
		p.chooseBest(float64(n))
	}
	return nil
}

// chooseBest chooses by the means over intervals.
func (p *Profiled) chooseBest(intervals float64) {
	for i := range p.profile.tried {
		t := &p.profile.tried[i]
		t.Accuracy, t.Cost = t.Accuracy/intervals, t.Cost/intervals
	}
	p.best, p.profile = p.Goal.Best(p.Search.Learn(p.profile.tried)), nil
}

// All tries the same configurations each time (Zhang and others, "AWStream", SIGCOMM 2018, whose online profiles take some of all configurations).
type All []oneadapt.Config

// Candidates implements Search.
func (s All) Candidates() []oneadapt.Config { return s }

// Learn implements Search.
func (s All) Learn(tried []Tried) []Tried { return tried }

// Grid are all configurations of every so-manieth setting of each knob, the dearest among them.
func Grid(knobs []oneadapt.Knob, every ...int) []oneadapt.Config {
	all := []oneadapt.Config{{}}
	for i := range knobs {
		var more []oneadapt.Config
		for _, c := range all {
			for s := len(knobs[i].Places) - 1; s >= 0; s -= every[i%len(every)] {
				more = append(more, append(c[:len(c):len(c)], s))
			}
		}
		all = more
	}
	return all
}
