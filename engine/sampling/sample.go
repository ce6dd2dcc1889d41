package sampling

import (
	"cmp"
	"math"
	"slices"

	"github.com/prefillonly/prefillonly/engine"
)

// sampleColumn returns the column at which the cumulative probability passes u, at the ask's temperature.
func (d *distribution) sampleColumn(ask *engine.Ask, u float64) int {
	columns := d.drawableColumns(ask)
	left := u * d.totalWeight(columns, ask.Temperature)
	for _, c := range columns {
		if left -= d.columnWeight(c, ask.Temperature); left < 0 {
			return c
		}
	}
	return d.topColumns(1)[0] // rounding left a remainder
}

// drawableColumns are the columns that may be drawn: those that MinP, TopK and TopP leave, in this order.
func (d *distribution) drawableColumns(ask *engine.Ask) []int {
	columns := d.likelyColumns(ask)
	if ask.TopP > 0 && ask.TopP < 1 {
		columns = d.nucleusColumns(columns, ask.Temperature, ask.TopP)
	}
	return columns
}

// likelyColumns returns, in their order, the columns of at least MinP of the likeliest one's probability that
// are not less likely than the TopK-th of them.
func (d *distribution) likelyColumns(ask *engine.Ask) []int {
	least := float32(-math.MaxFloat32) // below it is what cannot be drawn
	if ask.MinP > 0 {
		least = d.peak + ask.Temperature*float32(math.Log(float64(ask.MinP)))
	}
	if ask.TopK > 0 && ask.TopK < len(d.logits) {
		least = max(least, d.nthLargestLogit(ask.TopK))
	}
	columns := make([]int, 0, len(d.logits))
	for c, l := range d.logits {
		if l >= least {
			columns = append(columns, c)
		}
	}
	return columns
}

// nthLargestLogit is the n-th largest logit.
func (d *distribution) nthLargestLogit(n int) float32 {
	heap := slices.Sorted(slices.Values(d.logits[:n])) // the least first, as in any heap below
	for _, l := range d.logits[n:] {
		if l > heap[0] {
			heap[0] = l
			siftDown(heap)
		}
	}
	return heap[0]
}

// siftDown mends a heap, least first, whose first element has grown.
func siftDown(heap []float32) {
	for at, child := 0, 1; child < len(heap); at, child = child, 2*child+1 {
		if child+1 < len(heap) && heap[child+1] < heap[child] {
			child++
		}
		if heap[at] <= heap[child] {
			return
		}
		heap[at], heap[child] = heap[child], heap[at]
	}
}

// nucleusColumns returns the fewest likeliest of columns that hold topP of their probability (Holtzman et al.
// 2020, section 3.1), likeliest first. What lies below a V-th of 1-topP adds up to less than 1-topP, so
// only the rest is sorted.
func (d *distribution) nucleusColumns(columns []int, temperature, topP float32) []int {
	total := d.totalWeight(columns, temperature)
	floor := (1 - float64(topP)) * total / float64(len(columns))
	columns = slices.DeleteFunc(columns, func(c int) bool { return d.columnWeight(c, temperature) < floor })
	slices.SortStableFunc(columns, func(a, b int) int { return cmp.Compare(d.logits[b], d.logits[a]) })
	held := 0.0
	for i, c := range columns {
		if held += d.columnWeight(c, temperature); held >= float64(topP)*total {
			return columns[:i+1]
		}
	}
	return columns
}

func (d *distribution) totalWeight(columns []int, temperature float32) float64 {
	sum := 0.0
	for _, c := range columns {
		sum += d.columnWeight(c, temperature)
	}
	return sum
}

// columnWeight is proportional to the column's probability at the temperature.
func (d *distribution) columnWeight(column int, temperature float32) float64 {
	return exp((float64(d.logits[column]) - float64(d.peak)) / float64(temperature))
}
