package networktest

import (
	"slices"
	"testing"

	"github.com/prefillonly/prefillonly/kernels"
)

// sliceTensor is the part [from, to) of a view along a dimension.
func sliceTensor(t kernels.Tensor, dim, from, to int) kernels.Tensor {
	t.Shape = slices.Clone(t.Shape)
	t.Shape[dim] = to - from
	t.Off += 4 * int64(t.Stride[dim]) * int64(from)
	return t
}

// forEachRange calls do with ranges that make up 0 to n.
func (d *device) forEachRange(n int, do func(from, to int)) {
	for from := 0; from < n; {
		to := min(n, from+1+d.upTo(n))
		do(from, to)
		from = to
	}
}

// shiftOrigin is an origin for a part that begins so many outputs further on along a spatial dimension.
func shiftOrigin(origin []int, dim, by int) []int {
	o := slices.Clone(origin)
	o[dim] += by
	return o
}

// large are convolutions of which a backend may cut the work otherwise than of small ones.
var large = []Conv{
	newSquareConv(2, 52, 12, 16, 1, 3, 1),
	newSquareConv(2, 52, 64, 64, 1, 1, 1),
	newSquareConv(2, 52, 16, 16, 16, 3, 2),
	newSquareConv(2, 26, 96, 96, 96, 5, 1),
	newSquareConv(3, 13, 256, 128, 1, 1, 1),
	newSquareConv(1, 26, 64, 64, 1, 3, 1),
	newSquareConv(5, 1, 512, 100, 1, 1, 1),
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
	f := d.drawLayer(c)
	src, other := d.uploadImage(d.drawNormalArray(c.InputShape()...)), d.uploadImage(d.drawNormalArray(c.OutputShape()...))
	p := pickChoice(d, programs["SiLU and residual add"], programs["residual add"])
	whole := d.imageResult(c.OutputShape()...)
	d.Conv(whole, src, f.Filter, f.Affine, c.Origin, p, other)
	want := d.elementBits(whole)
	for dim := range len(whole.Shape) - 1 {
		dst := d.imageResult(c.OutputShape()...)
		d.forEachRange(dst.Shape[dim], func(from, to int) {
			in, origin := src, c.Origin
			if dim == 0 {
				in = sliceTensor(src, 0, from, to)
			} else {
				origin = shiftOrigin(origin, dim-1, from*c.Strides[dim-1])
			}
			d.Conv(sliceTensor(dst, dim, from, to), in, f.Filter, f.Affine, origin, p, sliceTensor(other, dim, from, to))
		})
		d.sameBits("convolution", d.elementBits(dst), want)
	}
}

func convBackwardApart(d *device, c Conv) {
	f := d.drawLayer(c)
	src, whole := d.uploadImage(d.drawNormalArray(c.OutputShape()...)), d.imageResult(c.InputShape()...)
	d.ConvBackward(whole, src, f.Filter, c.Origin)
	want := d.elementBits(whole)
	for dim := range len(whole.Shape) - 1 {
		dst := d.imageResult(c.InputShape()...)
		d.forEachRange(dst.Shape[dim], func(from, to int) {
			if dim == 0 {
				d.ConvBackward(sliceTensor(dst, 0, from, to), sliceTensor(src, 0, from, to), f.Filter, c.Origin)
			} else {
				d.ConvBackward(sliceTensor(dst, dim, from, to), src, f.Filter, shiftOrigin(c.Origin, dim-1, -from))
			}
		})
		d.sameBits("gradient", d.elementBits(dst), want)
	}
}

func poolApart(d *device, p Pool) {
	src, whole := d.uploadImage(d.drawNormalArray(p.InputShape()...)), d.imageResult(p.OutputShape()...)
	d.Pool(whole, src, p.PoolSpec, p.Origin)
	want := d.elementBits(whole)
	for dim := range len(whole.Shape) {
		dst := d.imageResult(p.OutputShape()...)
		d.forEachRange(dst.Shape[dim], func(from, to int) {
			in, origin := src, p.Origin
			if dim == 0 || dim == len(whole.Shape)-1 {
				in = sliceTensor(src, dim, from, to)
			} else {
				origin = shiftOrigin(origin, dim-1, from*p.Strides[dim-1])
			}
			d.Pool(sliceTensor(dst, dim, from, to), in, p.PoolSpec, origin)
		})
		d.sameBits("pool", d.elementBits(dst), want)
	}
	grad, back := d.uploadImage(d.drawNormalArray(p.OutputShape()...)), d.imageResult(p.InputShape()...)
	d.PoolBackward(back, grad, src, p.PoolSpec, p.Origin)
	want = d.elementBits(back)
	for _, dim := range []int{0, len(back.Shape) - 1} {
		dst := d.imageResult(p.InputShape()...)
		d.forEachRange(dst.Shape[dim], func(from, to int) {
			d.PoolBackward(sliceTensor(dst, dim, from, to), sliceTensor(grad, dim, from, to), sliceTensor(src, dim, from, to), p.PoolSpec, p.Origin)
		})
		d.sameBits("gradient", d.elementBits(dst), want)
	}
}

// testSumsApart cuts the operations that are no convolutions along the dimensions that they do not sum over.
func (s suite) testSumsApart(t *testing.T) {
	d := newDevice(t, s.open)
	for i := range 60 {
		shape := d.randomShape(2, 4, 1, 2, 5, 17, 40)
		dim := d.upTo(len(shape) - 1)
		cut := (dim + 1 + d.upTo(len(shape)-2)) % len(shape)
		src, _ := d.uploadOperand(d.drawNormalArray(shape...))

		out, taps := slices.Clone(shape), d.drawTaps(9, shape[dim])
		out[dim] = 9
		d.checkInParts(out, cut, func(dst kernels.Tensor, from, to int) { d.Interpolate(dst, sliceTensor(src, cut, from, to), dim, taps) })

		out[dim] = 1
		for how := range reductions {
			d.checkInParts(out, cut, func(dst kernels.Tensor, from, to int) { d.Reduce(dst, sliceTensor(src, cut, from, to), how) })
		}

		d.checkInParts(shape, cut, func(dst kernels.Tensor, from, to int) { d.Map(dst, silu, sliceTensor(src, cut, from, to)) })

		m, n, k := pickChoice(d, 1, 4, 17), pickChoice(d, 1, 3, 40), pickChoice(d, 1, 7, 64, 300)
		if i < 3 {
			m, n, k = 150, 130, 310
		}
		a, _ := d.uploadOperand(d.drawNormalArray(3, m, k))
		b, _ := d.uploadOperand(d.drawNormalArray(3, k, n))
		d.checkInParts([]int{3, m, n}, 0, func(dst kernels.Tensor, from, to int) {
			d.MatMul(dst, sliceTensor(a, 0, from, to), sliceTensor(b, 0, from, to))
		})
		d.checkInParts([]int{3, m, n}, 1, func(dst kernels.Tensor, from, to int) { d.MatMul(dst, sliceTensor(a, 1, from, to), b) })
	}
}

// checkInParts computes a result at once and in parts.
func (d *device) checkInParts(shape []int, dim int, compute func(dst kernels.Tensor, from, to int)) {
	d.t.Helper()
	whole, dst := d.newResult(shape...), d.newResult(shape...)
	compute(whole, 0, shape[dim])
	want := d.elementBits(whole)
	d.forEachRange(shape[dim], func(from, to int) { compute(sliceTensor(dst, dim, from, to), from, to) })
	d.sameBits("result", d.elementBits(dst), want)
}

// SameBits checks that two ways to open a backend, such as with one thread and with several, give the same bits.
func SameBits(t *testing.T, a, b Open) {
	compute := func(open Open) (all [][]uint32) {
		d := newDevice(t, open)
		keep := func(dst kernels.Tensor) { all = append(all, d.elementBits(dst)) }
		cases := append(slices.Clone(convs), large...)
		for range 40 {
			cases = append(cases, d.randomConv())
		}
		for _, c := range cases {
			f := d.drawLayer(c)
			dst, back := d.imageResult(c.OutputShape()...), d.imageResult(c.InputShape()...)
			d.Conv(dst, d.uploadImage(d.drawNormalArray(c.InputShape()...)), f.Filter, f.Affine, c.Origin, silu)
			keep(dst)
			d.ConvBackward(back, dst, f.Filter, c.Origin)
			keep(back)
		}
		for _, p := range poolShapes() {
			dst, back := d.imageResult(p.OutputShape()...), d.imageResult(p.InputShape()...)
			src := d.uploadImage(d.drawNormalArray(p.InputShape()...))
			d.Pool(dst, src, p.PoolSpec, p.Origin)
			keep(dst)
			d.PoolBackward(back, dst, src, p.PoolSpec, p.Origin)
			keep(back)
		}
		x := d.uploadImage(d.drawNormalArray(2, 40, 40, 33))
		dst := d.newResult(2, 40, 77, 33)
		d.Interpolate(dst, x, 2, d.drawTaps(77, 40))
		keep(dst)
		for how := range kernels.Product + 1 {
			for _, out := range [][]int{{2, 1, 1, 33}, {1, 1, 1, 1}, {2, 40, 40, 1}, {1, 40, 40, 33}} {
				dst := d.newResult(out...)
				d.Reduce(dst, x, how)
				keep(dst)
			}
		}
		dst = d.newResult(2, 40, 40, 40)
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
