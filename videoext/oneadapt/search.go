package oneadapt

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Split gives each block the setting of least loss and cost, in closed form (the published code's way for quantisers of macroblocks): what a block loses at
// a setting is its change against the dearest one, and the price of resource is such that Share of the blocks prefer the dearest setting to the
// cheapest. Where fewer blocks lose anything, only these have settings above the cheapest; where none does there is nothing to go by, and all have the dearest. All knobs have the same number of settings, and are separable.
type Split struct {
	Share float64 // of blocks, above 0 and below 1
	From  Config  // the first configuration; nil: the dearest

	knobs  []Knob
	levels int
}

// NewSplit begins.
func NewSplit(s Split, knobs []Knob) (*Split, error) {
	if !(s.Share > 0 && s.Share < 1) {
		return nil, fmt.Errorf("a share of %v of the blocks is not between 0 and 1", s.Share)
	}
	if len(knobs) == 0 {
		return nil, fmt.Errorf("there are no knobs")
	}
	if s.From == nil {
		s.From = Dearest(knobs)
	}
	s.knobs, s.levels = knobs, len(knobs[0].Places)
	for i := range knobs {
		if err := knobs[i].check(); err != nil {
			return nil, err
		}
		if len(knobs[i].Places) != s.levels {
			return nil, fmt.Errorf("knob %s has %d settings, %s has %d", knobs[i].Name, len(knobs[i].Places), knobs[0].Name, s.levels)
		}
	}
	return &s, nil
}

// Start implements Rule.
func (s *Split) Start() Config { return slices.Clone(s.From) }

// Probe implements Rule: all blocks at each of the settings but the dearest, from the cheapest on.
func (s *Split) Probe(Config) Probe {
	probe := Probe{Against: Dearest(s.knobs), Parts: len(s.knobs)}
	for level := range s.levels - 1 {
		c := make(Config, len(s.knobs))
		for i := range c {
			c[i] = level
		}
		probe.Configs = append(probe.Configs, c)
	}
	return probe
}

// Next implements Rule.
func (s *Split) Next(dearest Trial, tried []Trial, _ float64) Config {
	if tried[0].totalChange() == 0 {
		return Dearest(s.knobs)
	}
	price, c := s.resourcePrice(&dearest, &tried[0]), make(Config, len(s.knobs))
	for i := range c {
		c[i] = s.levels - 1
		least := price * dearest.Cost
		for level := len(tried) - 1; level >= 0; level-- {
			if objective := tried[level].Changes[i] + price*tried[level].Cost; objective < least || objective == least && tried[level].Changes[i] == 0 {
				c[i], least = level, objective
			}
		}
	}
	return c
}

// resourcePrice is what the resource of the dearest configuration costs in loss, so that Share of the blocks lose more than they save at the cheapest.
func (s *Split) resourcePrice(dearest, cheapest *Trial) float64 {
	if !(dearest.Cost > cheapest.Cost) {
		return 0
	}
	losses := slices.Clone(cheapest.Changes)
	slices.SortFunc(losses, func(a, b float64) int { return cmp.Compare(b, a) })
	at := int(math.Ceil(s.Share * float64(len(losses))))
	return losses[max(at-1, 0)] / (dearest.Cost - cheapest.Cost)
}

// Best tries every configuration of a few knobs, and takes the one of the greatest accuracy less cost (the published code's way for filters of
// frames). A change is a loss against the dearest configuration.
type Best struct {
	Weight, Gain float64 // as of Ascent

	knobs []Knob
}

// maxConfigs is how many configurations Best tries, at most.
const maxConfigs = 64

// NewBest begins with the dearest configuration.
func NewBest(b Best, knobs []Knob) (*Best, error) {
	all := 1
	for i := range knobs {
		if err := knobs[i].check(); err != nil {
			return nil, err
		}
		if all *= len(knobs[i].Places); all > maxConfigs {
			return nil, fmt.Errorf("%d knobs have more than %d configurations", len(knobs), maxConfigs)
		}
	}
	if len(knobs) == 0 || !(b.Weight == 0 || isValidFactor(b.Weight)) || !isValidFactor(b.Gain) {
		return nil, fmt.Errorf("%d knobs, a weight of %v and a gain of %v", len(knobs), b.Weight, b.Gain)
	}
	b.knobs = knobs
	return &b, nil
}

// Start implements Rule.
func (b *Best) Start() Config { return Dearest(b.knobs) }

// Probe implements Rule.
func (b *Best) Probe(Config) Probe {
	configs := []Config{Cheapest(b.knobs)}
	for i := range b.knobs {
		for at, n := 0, len(configs); at < n; at++ {
			for setting := 1; setting < len(b.knobs[i].Places); setting++ {
				configs = append(configs, configs[at].withSetting(i, setting))
			}
		}
	}
	last := len(configs) - 1 // the dearest
	return Probe{Against: configs[last], Configs: configs[:last], Parts: 1}
}

// Next implements Rule.
func (b *Best) Next(dearest Trial, tried []Trial, utility float64) Config {
	best, least := dearest.Config, b.Weight*dearest.Cost
	for i := range tried {
		if objective := b.Gain*tried[i].totalChange()/max(utility, 1) + b.Weight*tried[i].Cost; objective < least {
			best, least = tried[i].Config, objective
		}
	}
	return slices.Clone(best)
}
