package networktest

import (
	"math"
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// randomShape draws dimensions.
func (d *device) randomShape(from, to int, sizes ...int) []int {
	shape := make([]int, from+d.upTo(to-from))
	for i := range shape {
		shape[i] = pickChoice(d, sizes...)
	}
	return shape
}

// drawTaps draws taps that make out elements of in, some of them none.
func (d *device) drawTaps(out, in int) kernels.Taps {
	t := kernels.Taps{Start: []int32{0}}
	for range out {
		if in > 0 {
			for range pickChoice(d, 0, 1, 2, 2, 2, 4, 4, 9) {
				t.Index = append(t.Index, int32(d.random.IntN(in)))
				t.Weight = append(t.Weight, float32(d.random.NormFloat64()))
			}
		}
		t.Start = append(t.Start, int32(len(t.Index)))
	}
	return t
}

func (s suite) testInterpolate(t *testing.T) {
	d := newDevice(t, s.open)
	for range 300 {
		shape := d.randomShape(1, 5, 1, 2, 3, 7, 16)
		d.compareInterpolate(shape, d.upTo(len(shape)-1), pickChoice(d, 1, 2, 5, 14, 33))
	}
	d.compareInterpolate([]int{2, 13, 13, 64}, 1, 26)
	d.compareInterpolate([]int{2, 13, 13, 64}, 2, 26)
	d.compareInterpolate([]int{1, 20, 20, 3}, 1, 11)
}

func (d *device) compareInterpolate(shape []int, dim, size int) {
	d.t.Helper()
	src, x := d.uploadOperand(d.drawNormalArray(shape...))
	taps := d.drawTaps(size, shape[dim])
	out := slices.Clone(shape)
	out[dim] = size
	dst := d.newResult(out...)
	d.Interpolate(dst, src, dim, taps)
	d.checkSums("interpolation", d.readResult("interpolation", dst), Interpolate(x, dim, taps))
}

func (s suite) testMatMul(t *testing.T) {
	d := newDevice(t, s.open)
	for range 200 {
		d.compareMatMul(d.randomShape(0, 3, 1, 2, 3), pickChoice(d, 1, 2, 5, 17, 40), pickChoice(d, 1, 3, 16, 33), pickChoice(d, 0, 1, 2, 7, 64, 65))
	}
	d.compareMatMul(nil, 3, 1000, 300)
	d.compareMatMul([]int{2, 4}, 50, 50, 32)
}

func (d *device) compareMatMul(lead []int, m, n, k int) {
	d.t.Helper()
	shape := func(last ...int) []int { return append(append([]int(nil), lead...), last...) }
	a, left := d.uploadOperand(d.drawNormalArray(shape(m, k)...))
	b, right := d.uploadOperand(d.drawNormalArray(shape(k, n)...))
	dst := d.newResult(shape(m, n)...)
	d.MatMul(dst, a, b)
	d.checkSums("product", d.readResult("product", dst), MatMul(left, right))
}

var reductions = map[kernels.Reduction]string{kernels.Sum: "Sum", kernels.Largest: "Largest", kernels.Smallest: "Smallest", kernels.Product: "Product"}

func (s suite) testReduce(t *testing.T) {
	for how, name := range reductions {
		t.Run(name, func(t *testing.T) {
			d := newDevice(t, s.open)
			for range 40 {
				shape := d.randomShape(1, 5, 1, 2, 3, 5, 17)
				for set := range 1 << len(shape) { // of dimensions
					if Product(shape) < 3000 || d.upTo(5) == 0 {
						d.compareReduce(how, shape, set, d.nearOne(shape...))
					}
				}
			}
			for _, shape := range [][]int{{2, 13, 13, 96}, {3, 1000}, {1, 52, 52, 1}} {
				x := d.nearOne(shape...)
				for set := range 1 << len(shape) {
					d.compareReduce(how, shape, set, x)
				}
			}
			for range 20 { // what is no number
				x := d.drawNormalArray(4, 30)
				for range 10 {
					x.V[d.upTo(len(x.V)-1)] = pickChoice(d, math.NaN(), math.Inf(1), math.Inf(-1), 0)
				}
				d.compareReduce(how, x.Shape, 2, x)
			}
		})
	}
}

// nearOne draws an array whose product is neither very large nor very small.
func (d *device) nearOne(shape ...int) Array {
	x := d.drawNormalArray(shape...)
	for i := range x.V {
		x.V[i] = float64(float32(1 + x.V[i]/math.Sqrt(float64(len(x.V)))))
	}
	return x
}

func (d *device) compareReduce(how kernels.Reduction, shape []int, set int, x Array) {
	d.t.Helper()
	src, x := d.uploadOperand(x)
	out := slices.Clone(shape)
	for i := range out {
		if set>>i&1 != 0 {
			out[i] = 1
		}
	}
	dst := d.newResult(out...)
	d.Reduce(dst, src, how)
	d.checkSums("reduction", d.readResult("reduction", dst), Reduce(x, how, out))
}
