package networktest

import (
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// slice is the part [from, to) of a view along a dimension.
func slice(t kernels.Tensor, dim, from, to int) kernels.Tensor {
	t.Shape = slices.Clone(t.Shape)
	t.Shape[dim] = to - from
	t.Off += 4 * int64(t.Stride[dim]) * int64(from)
	return t
}

// cuts calls do with ranges that make up 0 to n.
func (d *device) cuts(n int, do func(from, to int)) {
	for from := 0; from < n; {
		to := min(n, from+1+d.upTo(n))
		do(from, to)
		from = to
	}
}

// moved is an origin for a part that begins so many outputs further on along a spatial dimension.
func moved(origin []int, dim, by int) []int {
	o := slices.Clone(origin)
	o[dim] += by
	return o
}

// large are convolutions of which a backend may cut the work otherwise than of small ones.
var large = []Conv{
	square(2, 52, 12, 16, 1, 3, 1),
	square(2, 52, 64, 64, 1, 1, 1),
	square(2, 52, 16, 16, 16, 3, 2),
	square(2, 26, 96, 96, 96, 5, 1),
	square(3, 13, 256, 128, 1, 1, 1),
	square(1, 26, 64, 64, 1, 3, 1),
	square(5, 1, 512, 100, 1, 1, 1),
}

// testApart computes images one by one, and rows, columns and planes apart: always the same bits.
func (s suite) testApart(t *testing.T) {
	for name, apart := range map[string]func(d *device, c Conv){"Conv": convApart, "ConvBackward": convBackwardApart} {
		t.Run(name, func(t *testing.T) {
			s.eachConv(t, 60, apart)
			for _, c := range large {
				t.Run(c.String(), func(t *testing.T) { apart(newDevice(t, s.open), c) })
			}
		})
	}
	t.Run("Pool", func(t *testing.T) { s.eachPool(t, poolApart) })
	t.Run("Sums", s.testSumsApart)
}

func convApart(d *device, c Conv) {
	f, _, _ := d.filter(c)
	src, other := d.image(d.normal(c.InputShape()...)), d.image(d.normal(c.OutputShape()...))
	p := one(d, programs["SiLU and residual add"], programs["residual add"])
	whole := d.imageResult(c.OutputShape()...)
	d.Conv(whole, src, f, c.Origin, p, other)
	want := d.bits(whole)
	for dim := range len(whole.Shape) - 1 {
		dst := d.imageResult(c.OutputShape()...)
		d.cuts(dst.Shape[dim], func(from, to int) {
			in, origin := src, c.Origin
			if dim == 0 {
				in = slice(src, 0, from, to)
			} else {
				origin = moved(origin, dim-1, from*c.Strides[dim-1])
			}
			d.Conv(slice(dst, dim, from, to), in, f, origin, p, slice(other, dim, from, to))
		})
		d.sameBits("convolution", d.bits(dst), want)
	}
}

func convBackwardApart(d *device, c Conv) {
	f, _, _ := d.filter(c)
	src, whole := d.image(d.normal(c.OutputShape()...)), d.imageResult(c.InputShape()...)
	d.ConvBackward(whole, src, f, c.Origin)
	want := d.bits(whole)
	for dim := range len(whole.Shape) - 1 {
		dst := d.imageResult(c.InputShape()...)
		d.cuts(dst.Shape[dim], func(from, to int) {
			if dim == 0 {
				d.ConvBackward(slice(dst, 0, from, to), slice(src, 0, from, to), f, c.Origin)
			} else {
				d.ConvBackward(slice(dst, dim, from, to), src, f, moved(c.Origin, dim-1, -from))
			}
		})
		d.sameBits("gradient", d.bits(dst), want)
	}
}

func poolApart(d *device, p Pool) {
	src, whole := d.image(d.normal(p.InputShape()...)), d.imageResult(p.OutputShape()...)
	d.Pool(whole, src, p.PoolSpec, p.Origin)
	want := d.bits(whole)
	for dim := range len(whole.Shape) {
		dst := d.imageResult(p.OutputShape()...)
		d.cuts(dst.Shape[dim], func(from, to int) {
			in, origin := src, p.Origin
			if dim == 0 || dim == len(whole.Shape)-1 {
				in = slice(src, dim, from, to)
			} else {
				origin = moved(origin, dim-1, from*p.Strides[dim-1])
			}
			d.Pool(slice(dst, dim, from, to), in, p.PoolSpec, origin)
		})
		d.sameBits("pool", d.bits(dst), want)
	}
	grad, back := d.image(d.normal(p.OutputShape()...)), d.imageResult(p.InputShape()...)
	d.PoolBackward(back, grad, src, p.PoolSpec, p.Origin)
	want = d.bits(back)
	for _, dim := range []int{0, len(back.Shape) - 1} {
		dst := d.imageResult(p.InputShape()...)
		d.cuts(dst.Shape[dim], func(from, to int) {
			d.PoolBackward(slice(dst, dim, from, to), slice(grad, dim, from, to), slice(src, dim, from, to), p.PoolSpec, p.Origin)
		})
		d.sameBits("gradient", d.bits(dst), want)
	}
}

// testSumsApart cuts the operations that are no convolutions along the dimensions that they do not sum over.
func (s suite) testSumsApart(t *testing.T) {
	d := newDevice(t, s.open)
	for i := range 60 {
		shape := d.randomShape(2, 4, 1, 2, 5, 17, 40)
		dim := d.upTo(len(shape) - 1)
		cut := (dim + 1 + d.upTo(len(shape)-2)) % len(shape)
		src, _ := d.operand(d.normal(shape...))

		out, taps := slices.Clone(shape), d.taps(9, shape[dim])
		out[dim] = 9
		d.apart(out, cut, func(dst kernels.Tensor, from, to int) { d.Interpolate(dst, slice(src, cut, from, to), dim, taps) })

		out[dim] = 1
		for how := range reductions {
			d.apart(out, cut, func(dst kernels.Tensor, from, to int) { d.Reduce(dst, slice(src, cut, from, to), how) })
		}

		d.apart(shape, cut, func(dst kernels.Tensor, from, to int) { d.Map(dst, silu, slice(src, cut, from, to)) })

		m, n, k := one(d, 1, 4, 17), one(d, 1, 3, 40), one(d, 1, 7, 64, 300)
		if i < 3 {
			m, n, k = 150, 130, 310
		}
		a, _ := d.operand(d.normal(3, m, k))
		b, _ := d.operand(d.normal(3, k, n))
		d.apart([]int{3, m, n}, 0, func(dst kernels.Tensor, from, to int) { d.MatMul(dst, slice(a, 0, from, to), slice(b, 0, from, to)) })
		d.apart([]int{3, m, n}, 1, func(dst kernels.Tensor, from, to int) { d.MatMul(dst, slice(a, 1, from, to), b) })
	}
}

// apart computes a result at once and in parts.
func (d *device) apart(shape []int, dim int, compute func(dst kernels.Tensor, from, to int)) {
	d.t.Helper()
	whole, dst := d.result(shape...), d.result(shape...)
	compute(whole, 0, shape[dim])
	want := d.bits(whole)
	d.cuts(shape[dim], func(from, to int) { compute(slice(dst, dim, from, to), from, to) })
	d.sameBits("result", d.bits(dst), want)
}

// SameBits checks that two ways to open a backend, such as with one thread and with several, give the same bits.
func SameBits(t *testing.T, a, b Open) {
	compute := func(open Open) (all [][]uint32) {
		d := newDevice(t, open)
		keep := func(dst kernels.Tensor) { all = append(all, d.bits(dst)) }
		cases := append(slices.Clone(convs), large...)
		for range 40 {
			cases = append(cases, d.randomConv())
		}
		for _, c := range cases {
			f, _, _ := d.filter(c)
			dst, back := d.imageResult(c.OutputShape()...), d.imageResult(c.InputShape()...)
			d.Conv(dst, d.image(d.normal(c.InputShape()...)), f, c.Origin, silu)
			keep(dst)
			d.ConvBackward(back, dst, f, c.Origin)
			keep(back)
		}
		for _, p := range pools() {
			dst, back := d.imageResult(p.OutputShape()...), d.imageResult(p.InputShape()...)
			src := d.image(d.normal(p.InputShape()...))
			d.Pool(dst, src, p.PoolSpec, p.Origin)
			keep(dst)
			d.PoolBackward(back, dst, src, p.PoolSpec, p.Origin)
			keep(back)
		}
		x := d.image(d.normal(2, 40, 40, 33))
		dst := d.result(2, 40, 77, 33)
		d.Interpolate(dst, x, 2, d.taps(77, 40))
		keep(dst)
		for how := range kernels.Product + 1 {
			for _, out := range [][]int{{2, 1, 1, 33}, {1, 1, 1, 1}, {2, 40, 40, 1}, {1, 40, 40, 33}} {
				dst := d.result(out...)
				d.Reduce(dst, x, how)
				keep(dst)
			}
		}
		dst = d.result(2, 40, 40, 40)
		turned := x
		turned.Shape, turned.Stride = []int{2, 40, 33, 40}, []int{x.Stride[0], x.Stride[1], x.Stride[3], x.Stride[2]}
		d.MatMul(dst, x, turned)
		keep(dst)
		return all
	}
	want, got := compute(a), compute(b)
	for i := range want {
		(&device{t: t}).sameBits("result", got[i], want[i])
	}
}
