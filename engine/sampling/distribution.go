package sampling

import (
	"math"
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

// best are the columns of the n largest logits above minus infinity, largest first, ties by lower id.
func (d *distribution) best(n int) []int {
	columns := make([]int, 0, n+1)
	floor := float32(math.Inf(-1)) // what a logit must exceed once there are n
	for c, l := range d.logits {
		if !(l > floor) {
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

// rank is the column's place among the likeliest, from 1 on: how many logits are not below its own.
func (d *distribution) rank(column int) uint32 {
	own, n := d.logits[column], uint32(0)
	for _, l := range d.logits {
		if l >= own {
			n++
		}
	}
	return n
}
