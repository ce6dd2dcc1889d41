package networktest

import (
	"fmt"
	"math"

	"github.com/prefillonly/prefillonly/kernels"
)

// Pool is a pooling with the sizes of its input and output.
type Pool struct {
	kernels.PoolSpec
	N, Channels int
	Input, Size []int // spatial
	Origin      []int
}

func (p Pool) String() string {
	kind := "mean"
	switch {
	case p.Max:
		kind = "max"
	case p.Counted:
		kind = fmt.Sprintf("mean-to%v", p.CountedEnd)
	}
	return fmt.Sprintf("%s-%dx%v-to-%v-of-%d-kernel%v-strides%v-dilations%v-origin%v",
		kind, p.N, p.Input, p.Size, p.Channels, p.Kernel, p.Strides, p.Dilations, p.Origin)
}

// InputShape is [N, spatial..., Channels].
func (p Pool) InputShape() []int { return append(append([]int{p.N}, p.Input...), p.Channels) }

// OutputShape is [N, spatial..., Channels].
func (p Pool) OutputShape() []int { return append(append([]int{p.N}, p.Size...), p.Channels) }

// forEachTap calls do with the places of an output's taps.
func (p Pool) forEachTap(output []int, do func(input []int)) {
	input := make([]int, len(output))
	copy(input, output)
	Places(p.Kernel, func(tap []int) {
		for i := range tap {
			input[i+1] = output[i+1]*p.Strides[i] + p.Origin[i] + tap[i]*p.Dilations[i]
		}
		do(input)
	})
}

// meanDivisor is what a mean divides by.
func (p Pool) meanDivisor(x Array, output []int) float64 {
	count := 0
	p.forEachTap(output, func(input []int) {
		counts := x.isInside(input)
		if p.Counted {
			counts = true
			for i, end := range p.CountedEnd {
				counts = counts && input[i+1] >= p.Origin[i] && input[i+1] < end
			}
		}
		if counts {
			count++
		}
	})
	return float64(max(1, count))
}

// largestTap is the place of an output's maximum, nil if no tap is inside.
func (p Pool) largestTap(x Array, output []int) (place []int) {
	p.forEachTap(output, func(input []int) {
		if !x.isInside(input) {
			return
		}
		if v := x.elementAt(input); place == nil || v > x.elementAt(place) || math.IsNaN(v) && !math.IsNaN(x.elementAt(place)) {
			place = append([]int(nil), input...)
		}
	})
	return place
}

// Forward is the pooling of x.
func (p Pool) Forward(x Array) []Sum {
	var sums []Sum
	Places(p.OutputShape(), func(output []int) {
		s := Sum{}
		if p.Max {
			s.Value = math.Inf(-1)
			if at := p.largestTap(x, output); at != nil {
				s.Value = x.elementAt(at)
			}
			sums = append(sums, s)
			return
		}
		p.forEachTap(output, func(input []int) {
			if x.isInside(input) {
				s.addTerm(x.elementAt(input))
			}
		})
		sums = append(sums, s.scaledBy(1/p.meanDivisor(x, output)))
	})
	return sums
}

// Backward is the gradient of x.
func (p Pool) Backward(x, grad Array) []Sum {
	sums := make([]Sum, len(x.V))
	Places(p.OutputShape(), func(output []int) {
		if p.Max {
			if at := p.largestTap(x, output); at != nil {
				sums[x.elementIndex(at)].addTerm(grad.elementAt(output))
			}
			return
		}
		divisor := p.meanDivisor(x, output)
		p.forEachTap(output, func(input []int) {
			if x.isInside(input) {
				sums[x.elementIndex(input)].addTerm(grad.elementAt(output) / divisor)
			}
		})
	})
	return sums
}
