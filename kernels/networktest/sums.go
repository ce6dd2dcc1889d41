package networktest

import (
	"math"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// randomShape draws dimensions.
func (d *device) randomShape(from, to int, sizes ...int) []int {
	shape := make([]int, from+d.upTo(to-from))
	for i := range shape {
		shape[i] = one(d, sizes...)
	}
	return shape
}

// taps draws taps that make out elements of in, some of them none.
func (d *device) taps(out, in int) kernels.Taps {
	t := kernels.Taps{Start: []int32{0}}
	for range out {
		if in > 0 {
			for range one(d, 0, 1, 2, 2, 2, 4, 4, 9) {
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
		d.compareInterpolate(shape, d.upTo(len(shape)-1), one(d, 1, 2, 5, 14, 33))
	}
	d.compareInterpolate([]int{2, 13, 13, 64}, 1, 26)
	d.compareInterpolate([]int{2, 13, 13, 64}, 2, 26)
	d.compareInterpolate([]int{1, 20, 20, 3}, 1, 11)
}

func (d *device) compareInterpolate(shape []int, dim, size int) {
	d.t.Helper()
	src, x := d.operand(d.normal(shape...))
	taps := d.taps(size, shape[dim])
	out := append([]int(nil), shape...)
	out[dim] = size
	var want []sum
	places(out, func(at []int) {
		from, s := append([]int(nil), at...), sum{}
		for j := taps.Start[at[dim]]; j < taps.Start[at[dim]+1]; j++ {
			from[dim] = int(taps.Index[j])
			s.add(x.at(from) * float64(taps.Weight[j]))
		}
		want = append(want, s)
	})
	dst := d.result(out...)
	d.Interpolate(dst, src, dim, taps)
	d.checkSums("interpolation", d.got("interpolation", dst), want)
}

func (s suite) testMatMul(t *testing.T) {
	d := newDevice(t, s.open)
	for range 200 {
		d.compareMatMul(d.randomShape(0, 3, 1, 2, 3), one(d, 1, 2, 5, 17, 40), one(d, 1, 3, 16, 33), one(d, 0, 1, 2, 7, 64, 65))
	}
	d.compareMatMul(nil, 3, 1000, 300)
	d.compareMatMul([]int{2, 4}, 50, 50, 32)
}

func (d *device) compareMatMul(lead []int, m, n, k int) {
	d.t.Helper()
	shape := func(last ...int) []int { return append(append([]int(nil), lead...), last...) }
	a, left := d.operand(d.normal(shape(m, k)...))
	b, right := d.operand(d.normal(shape(k, n)...))
	var want []sum
	places(shape(m, n), func(at []int) {
		s, batch := sum{}, at[:len(lead)]
		for i := range k {
			s.add(left.at(append(append([]int(nil), batch...), at[len(lead)], i)) * right.at(append(append([]int(nil), batch...), i, at[len(lead)+1])))
		}
		want = append(want, s)
	})
	dst := d.result(shape(m, n)...)
	d.MatMul(dst, a, b)
	d.checkSums("product", d.got("product", dst), want)
}

var reductions = map[kernels.Reduction]string{kernels.Sum: "Sum", kernels.Largest: "Largest", kernels.Smallest: "Smallest", kernels.Product: "Product"}

func (s suite) testReduce(t *testing.T) {
	for how, name := range reductions {
		t.Run(name, func(t *testing.T) {
			d := newDevice(t, s.open)
			for range 40 {
				shape := d.randomShape(1, 5, 1, 2, 3, 5, 17)
				for set := range 1 << len(shape) { // of dimensions
					if product(shape) < 3000 || d.upTo(5) == 0 {
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
				x := d.normal(4, 30)
				for range 10 {
					x.v[d.upTo(len(x.v)-1)] = one(d, math.NaN(), math.Inf(1), math.Inf(-1), 0)
				}
				d.compareReduce(how, x.shape, 2, x)
			}
		})
	}
}

// nearOne draws an array whose product is neither very large nor very small.
func (d *device) nearOne(shape ...int) array {
	x := d.normal(shape...)
	for i := range x.v {
		x.v[i] = float64(float32(1 + x.v[i]/math.Sqrt(float64(len(x.v)))))
	}
	return x
}

func (d *device) compareReduce(how kernels.Reduction, shape []int, set int, x array) {
	d.t.Helper()
	src, x := d.operand(x)
	out := append([]int(nil), shape...)
	for i := range out {
		if set>>i&1 != 0 {
			out[i] = 1
		}
	}
	sums := make([]sum, product(out))
	for i := range sums {
		sums[i].value = map[kernels.Reduction]float64{kernels.Product: 1, kernels.Largest: math.Inf(-1), kernels.Smallest: math.Inf(1)}[how]
	}
	places(shape, func(at []int) {
		to := append([]int(nil), at...)
		for i := range to {
			to[i] = min(to[i], out[i]-1)
		}
		s, v := &sums[array{shape: out}.index(to)], x.at(at)
		switch how {
		case kernels.Sum:
			s.add(v)
		case kernels.Product:
			s.value *= v
			s.terms++
		case kernels.Largest:
			s.value = max(s.value, v)
		case kernels.Smallest:
			s.value = min(s.value, v)
		}
	})
	if how == kernels.Product { // errors add up, not at random where factors repeat
		for i := range sums {
			sums[i].size = math.Abs(sums[i].value) * math.Sqrt(float64(sums[i].terms))
		}
	}
	dst := d.result(out...)
	d.Reduce(dst, src, how)
	d.checkSums("reduction", d.got("reduction", dst), sums)
}
