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

// taps calls do with the places of an output's taps.
func (p Pool) taps(output []int, do func(input []int)) {
	input := make([]int, len(output))
	copy(input, output)
	Places(p.Kernel, func(tap []int) {
		for i := range tap {
			input[i+1] = output[i+1]*p.Strides[i] + p.Origin[i] + tap[i]*p.Dilations[i]
		}
		do(input)
	})
}

// divisor is what a mean divides by.
func (p Pool) divisor(x Array, output []int) float64 {
	count := 0
	p.taps(output, func(input []int) {
		counts := x.has(input)
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

// largest is the place of an output's maximum, nil if no tap is inside.
func (p Pool) largest(x Array, output []int) (place []int) {
	p.taps(output, func(input []int) {
		if !x.has(input) {
			return
		}
		if v := x.at(input); place == nil || v > x.at(place) || math.IsNaN(v) && !math.IsNaN(x.at(place)) {
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
			if at := p.largest(x, output); at != nil {
				s.Value = x.at(at)
			}
			sums = append(sums, s)
			return
		}
		p.taps(output, func(input []int) {
			if x.has(input) {
				s.add(x.at(input))
			}
		})
		sums = append(sums, s.scaled(1/p.divisor(x, output)))
	})
	return sums
}

// Backward is the gradient of x.
func (p Pool) Backward(x, grad Array) []Sum {
	sums := make([]Sum, len(x.V))
	Places(p.OutputShape(), func(output []int) {
		if p.Max {
			if at := p.largest(x, output); at != nil {
				sums[x.index(at)].add(grad.at(output))
			}
			return
		}
		divisor := p.divisor(x, output)
		p.taps(output, func(input []int) {
			if x.has(input) {
				sums[x.index(input)].add(grad.at(output) / divisor)
			}
		})
	})
	return sums
}
