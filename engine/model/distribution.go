package model

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
)

// distribution is the softmax of one row of logits.
type distribution struct {
	logits []float32
	ids    []engine.TokenID // of the columns, ascending; nil where column and id are the same
	peak   float32
	norm   float64 // log of the sum of exp(logits)
}

// newDistribution normalises logits, summing in a fixed order.
func newDistribution(logits []float32, ids []engine.TokenID) (distribution, *engine.Error) {
	d := distribution{logits: logits, ids: ids, peak: float32(math.Inf(-1))}
	for _, l := range logits {
		if l > d.peak {
			d.peak = l
		}
	}
	d.norm = float64(d.peak) + math.Log(d.sum(1)) // NaN if any logit is
	if math.IsNaN(d.norm) || math.IsInf(d.norm, 0) {
		return d, engine.Errorf(engine.CodeInternal, "the model's logits are not finite (the log of their exponentials' sum is %g)", d.norm)
	}
	return d, nil
}

// sum is that of exp((logits-peak)/temperature), at least 1: four sums side by side in float64, so
// that the additions need not wait for each other.
func (d *distribution) sum(temperature float32) float64 {
	var sums [4]float64
	n := len(d.logits) &^ 3
	for c := 0; c < n; c += 4 {
		four := d.logits[c : c+4 : c+4]
		sums[0] += float64(exp((four[0] - d.peak) / temperature))
		sums[1] += float64(exp((four[1] - d.peak) / temperature))
		sums[2] += float64(exp((four[2] - d.peak) / temperature))
		sums[3] += float64(exp((four[3] - d.peak) / temperature))
	}
	for _, l := range d.logits[n:] {
		sums[0] += float64(exp((l - d.peak) / temperature))
	}
	return sums[0] + sums[1] + (sums[2] + sums[3])
}

func (d *distribution) logprob(column int) float32 {
	return float32(float64(d.logits[column]) - d.norm)
}

func (d *distribution) id(column int) engine.TokenID {
	if d.ids == nil {
		return engine.TokenID(column)
	}
	return d.ids[column]
}

// column is the reverse of id.
func (d *distribution) column(id engine.TokenID) (int, bool) {
	if d.ids == nil {
		return int(id), int(id) < len(d.logits)
	}
	return slices.BinarySearch(d.ids, id)
}

// best are the columns of the n largest logits, largest first, ties by lower id.
func (d *distribution) best(n int) []int {
	columns := make([]int, 0, n+1)
	floor := float32(math.Inf(-1)) // what a logit must exceed once there are n
	for c, l := range d.logits {
		if len(columns) == n && !(l > floor) {
			continue
		}
		at := len(columns)
		for at > 0 && l > d.logits[columns[at-1]] {
			at--
		}
		columns = slices.Insert(columns, at, c)
		columns = columns[:min(n, len(columns))]
		if len(columns) == n && n > 0 {
			floor = d.logits[columns[n-1]]
		}
	}
	return columns
}

func (d *distribution) entry(column int) engine.TokenLogprob {
	return engine.TokenLogprob{ID: d.id(column), Logprob: d.logprob(column)}
}

// top reports the n likeliest tokens.
func (d *distribution) top(n int) []engine.TokenLogprob {
	if n == 0 {
		return nil
	}
	var list []engine.TokenLogprob
	for _, c := range d.best(n) {
		list = append(list, d.entry(c))
	}
	return list
}

// choose makes an answer out of logits over ids (the whole vocabulary if nil), to which the ask's
// biases are added in place. A label outside ids has a logprob of minus infinity.
func choose(logits []float32, ids []engine.TokenID, ask *engine.Ask, draw int) (*engine.Answer, *engine.Error) {
	biased := distribution{logits: logits, ids: ids}
	for _, b := range ask.Bias {
		if c, ok := biased.column(b.ID); ok {
			logits[c] += b.Bias
		}
	}
	d, err := newDistribution(logits, ids)
	if err != nil {
		return nil, err
	}
	chosen := d.best(1)[0]
	if ask.Temperature > 0 {
		chosen = d.sample(ask.Temperature, ask.TopP, uniform(ask.Seed, draw))
	}
	answer := &engine.Answer{Token: d.id(chosen), Logprob: d.logprob(chosen), Top: d.top(ask.Top)}
	for _, id := range ask.Labels {
		entry := engine.TokenLogprob{ID: id, Logprob: float32(math.Inf(-1))}
		if c, ok := d.column(id); ok {
			entry = d.entry(c)
		}
		answer.Labels = append(answer.Labels, entry)
	}
	return answer, nil
}

// uniform is in [0, 1), a function of its arguments alone.
func uniform(seed uint64, draw int) float64 {
	return float64(rand.NewPCG(seed, uint64(draw)).Uint64()>>11) * 0x1p-53
}

// sample returns the column at which the cumulative probability passes u, at the temperature, over
// the nucleus: the fewest likeliest tokens that hold topP (Holtzman et al. 2020, section 3.1).
func (d *distribution) sample(temperature, topP float32, u float64) int {
	columns := d.nucleus(temperature, topP)
	total := 0.0
	for _, c := range columns {
		total += d.weight(c, temperature)
	}
	left := u * total
	for _, c := range columns {
		if left -= d.weight(c, temperature); left < 0 {
			return c
		}
	}
	return d.best(1)[0] // rounding left a remainder
}

// weight is proportional to the column's probability at the temperature.
func (d *distribution) weight(column int, temperature float32) float64 {
	return float64(exp((d.logits[column] - d.peak) / temperature))
}

// nucleus returns the columns of the nucleus, likeliest first, or all in their order if topP is 1 (or
// 0, which means 1). What lies below a V-th of 1-topP adds up to less than 1-topP, so only the rest
// is sorted.
func (d *distribution) nucleus(temperature, topP float32) []int {
	total, floor := d.sum(temperature), 0.0
	whole := topP <= 0 || topP >= 1
	if !whole {
		floor = (1 - float64(topP)) * total / float64(len(d.logits))
	}
	var columns []int
	for c := range d.logits {
		if d.weight(c, temperature) >= floor {
			columns = append(columns, c)
		}
	}
	if whole {
		return columns
	}
	slices.SortStableFunc(columns, func(a, b int) int {
		switch {
		case d.logits[a] > d.logits[b]:
			return -1
		case d.logits[a] < d.logits[b]:
			return 1
		}
		return 0
	})
	held := 0.0
	for i, c := range columns {
		if held += d.weight(c, temperature); held >= float64(topP)*total {
			return columns[:i+1]
		}
	}
	return columns
}
