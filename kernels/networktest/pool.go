package networktest

import (
	"fmt"
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// pool is a pooling with the sizes of its input and output.
type pool struct {
	kernels.PoolSpec
	n, channels int
	input, size []int // spatial
	origin      []int
}

func (p pool) String() string {
	kind := "mean"
	switch {
	case p.Max:
		kind = "max"
	case p.Counted:
		kind = fmt.Sprintf("mean-to%v", p.CountedEnd)
	}
	return fmt.Sprintf("%s-%dx%v-to-%v-of-%d-kernel%v-strides%v-dilations%v-origin%v",
		kind, p.n, p.input, p.size, p.channels, p.Kernel, p.Strides, p.Dilations, p.origin)
}

func (p pool) inputShape() []int  { return append(append([]int{p.n}, p.input...), p.channels) }
func (p pool) outputShape() []int { return append(append([]int{p.n}, p.size...), p.channels) }

func squarePool(kind string, size, channels, kernel, stride, pad, dilation int) pool {
	outputs := (size+2*pad-dilation*(kernel-1)-1)/stride + 1
	return pool{
		kernels.PoolSpec{
			Max: kind == "max", Counted: kind == "counted", CountedEnd: []int{size + pad, size + pad},
			Kernel: []int{kernel, kernel}, Strides: []int{stride, stride}, Dilations: []int{dilation, dilation},
		}, 2, channels, []int{size, size}, []int{outputs, outputs}, []int{-pad, -pad},
	}
}

// pools are shapes as networks have them.
func pools() []pool {
	var all []pool
	for _, kind := range []string{"max", "mean", "counted"} {
		all = append(all, squarePool(kind, 13, 64, 5, 1, 2, 1), squarePool(kind, 13, 17, 3, 2, 1, 1), squarePool(kind, 13, 3, 2, 2, 0, 1),
			squarePool(kind, 13, 16, 13, 1, 6, 1), squarePool(kind, 12, 8, 3, 1, 2, 2), squarePool(kind, 7, 40, 7, 7, 0, 1))
	}
	return all
}

func (d *device) randomPool() pool {
	p := pool{n: one(d, 1, 1, 2, 3), channels: one(d, 1, 3, 8, 17, 64)}
	p.Max, p.Counted = d.upTo(1) == 0, d.upTo(1) == 0
	for range one(d, 1, 2, 2, 3) {
		p.Kernel = append(p.Kernel, one(d, 1, 2, 3, 4))
		p.Strides = append(p.Strides, one(d, 1, 1, 2, 3))
		p.Dilations = append(p.Dilations, one(d, 1, 1, 2))
		size := one(d, 1, 2, 5, 8)
		p.input = append(p.input, size)
		p.size = append(p.size, one(d, 1, 3, 6, 7))
		p.origin = append(p.origin, d.upTo(5)-4)
		p.CountedEnd = append(p.CountedEnd, size+d.upTo(4)-1)
	}
	return p
}

// taps calls do with the places of an output's taps.
func (p pool) taps(output []int, do func(input []int)) {
	input := make([]int, len(output))
	copy(input, output)
	places(p.Kernel, func(tap []int) {
		for i := range tap {
			input[i+1] = output[i+1]*p.Strides[i] + p.origin[i] + tap[i]*p.Dilations[i]
		}
		do(input)
	})
}

// divisor is what a mean divides by.
func (p pool) divisor(x array, output []int) float64 {
	count := 0
	p.taps(output, func(input []int) {
		counts := x.has(input)
		if p.Counted {
			counts = true
			for i, end := range p.CountedEnd {
				counts = counts && input[i+1] >= p.origin[i] && input[i+1] < end
			}
		}
		if counts {
			count++
		}
	})
	return float64(max(1, count))
}

// largest is the place of an output's maximum, nil if no tap is inside.
func (p pool) largest(x array, output []int) (place []int) {
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

func (p pool) expected(x array) []sum {
	var sums []sum
	places(p.outputShape(), func(output []int) {
		s := sum{}
		if p.Max {
			s.value = math.Inf(-1)
			if at := p.largest(x, output); at != nil {
				s.value = x.at(at)
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

func (p pool) expectedBackward(x, grad array) []sum {
	sums := make([]sum, len(x.v))
	places(p.outputShape(), func(output []int) {
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

// eachPool runs a test for shapes of networks and for random ones.
func (s suite) eachPool(t *testing.T, test func(d *device, p pool)) {
	for _, p := range pools() {
		t.Run(p.String(), func(t *testing.T) { test(newDevice(t, s.open), p) })
	}
	d := newDevice(t, s.open)
	for range 150 {
		p := d.randomPool()
		t.Run(p.String(), func(t *testing.T) { test(&device{d.Networks, t, d.random}, p) })
	}
}

func (s suite) testPool(t *testing.T) {
	s.eachPool(t, func(d *device, p pool) { d.comparePool(p, d.normal(p.inputShape()...)) })
	t.Run("NaN", func(t *testing.T) {
		d := newDevice(t, s.open)
		for _, p := range pools() {
			x := d.normal(p.inputShape()...)
			for range 20 {
				x.v[d.upTo(len(x.v)-1)] = one(d, math.NaN(), math.Inf(-1), math.Inf(-1))
			}
			d.comparePool(p, x)
		}
	})
}

func (d *device) comparePool(p pool, x array) {
	d.t.Helper()
	dst := d.imageResult(p.outputShape()...)
	d.Pool(dst, d.image(x), p.PoolSpec, p.origin)
	d.checkSums("pool", d.got("pool", dst), p.expected(x))
}

func (s suite) testPoolBackward(t *testing.T) {
	s.eachPool(t, func(d *device, p pool) { d.comparePoolBackward(p, d.normal(p.inputShape()...)) })
}

func (d *device) comparePoolBackward(p pool, x array) {
	d.t.Helper()
	grad := d.normal(p.outputShape()...)
	dst, src := d.imageResult(p.inputShape()...), kernels.Tensor{}
	if p.Max { // a mean does not read it
		src = d.image(x)
	}
	d.PoolBackward(dst, d.image(grad), src, p.PoolSpec, p.origin)
	d.checkSums("gradient", d.got("gradient", dst), p.expectedBackward(x, grad))
}

// testPoolTies has few different values, so that most maxima are there more than once: the first one gets all.
func (s suite) testPoolTies(t *testing.T) {
	d := newDevice(t, s.open)
	for i := range 60 {
		p := pools()[i%6]
		if i >= 30 {
			p = d.randomPool()
			p.Max = true
		}
		x := newArray(p.inputShape()...)
		for j := range x.v {
			x.v[j] = one(d, -1, 0, 1, math.Copysign(0, -1))
			if i%5 == 0 && d.upTo(3) == 0 {
				x.v[j] = one(d, math.NaN(), math.Inf(-1))
			}
			if i%7 == 0 {
				x.v[j] = math.Inf(-1)
			}
		}
		d.comparePoolBackward(p, x)
	}
}
