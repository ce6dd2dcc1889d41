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
	d := distribution{logits: logits, ids: ids, peak: peakOf(logits)}
	d.norm = float64(d.peak) + math.Log(d.sumExp()) // NaN if any logit is
	if math.IsNaN(d.norm) || math.IsInf(d.norm, 0) {
		return d, engine.Errorf(engine.CodeInternal, "the model's logits are not finite (the log of their exponentials' sum is %g)", d.norm)
	}
	return d, nil
}

// peakOf is the largest logit, NaN aside.
func peakOf(logits []float32) float32 {
	peak := float32(math.Inf(-1))
	for _, l := range logits {
		if l > peak {
			peak = l
		}
	}
	return peak
}

// sumExp is that of exp(logits-peak), at least 1: two sums side by side, so that additions need not wait for each other.
func (d *distribution) sumExp() float64 {
	even, odd, peak := 0.0, 0.0, float64(d.peak)
	n := len(d.logits) &^ 1
	for c := 0; c < n; c += 2 {
		two := d.logits[c : c+2 : c+2]
		even += exp(float64(two[0]) - peak)
		odd += exp(float64(two[1]) - peak)
	}
	for _, l := range d.logits[n:] {
		even += exp(float64(l) - peak)
	}
	return even + odd
}

func (d *distribution) logprob(column int) float32 {
	return float32(float64(d.logits[column]) - d.norm)
}

func (d *distribution) tokenID(column int) engine.TokenID {
	if d.ids == nil {
		return engine.TokenID(column)
	}
	return d.ids[column]
}

// columnOf is the reverse of id.
func (d *distribution) columnOf(id engine.TokenID) (int, bool) {
	if d.ids == nil {
		return int(id), int(id) < len(d.logits)
	}
	return slices.BinarySearch(d.ids, id)
}

// topColumns are the columns of the n largest logits above minus infinity, largest first, ties by lower id.
func (d *distribution) topColumns(n int) []int {
	if n == 0 {
		return nil
	}
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
		if len(columns) == n {
			floor = d.logits[columns[n-1]]
		}
	}
	return columns
}

func (d *distribution) logprobEntry(column int) engine.TokenLogprob {
	return engine.TokenLogprob{ID: d.tokenID(column), Logprob: d.logprob(column)}
}

func (d *distribution) logprobEntries(columns []int) []engine.TokenLogprob {
	var list []engine.TokenLogprob
	for _, c := range columns {
		list = append(list, d.logprobEntry(c))
	}
	return list
}

// columnRank is the column's place among the likeliest, from 1 on: how many logits are not below its own.
func (d *distribution) columnRank(column int) uint32 {
	own, n := d.logits[column], uint32(0)
	for _, l := range d.logits {
		if l >= own {
			n++
		}
	}
	return n
}
